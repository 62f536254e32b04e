/** Makes an empty column of 64-bit floats, or of 32-bit integers. */
export function createColumn(kind: 'float64' | 'int32'): Column {
  return new Column(kind === 'float64' ? new Float64Array(4096) : new Int32Array(4096));
}

/** A growing list of numbers, stored in a typed array so that appending usually does not allocate. */
export class Column {
  #values: Float64Array | Int32Array;
  length = 0;

  constructor(values: Float64Array | Int32Array) {
    this.#values = values;
  }

  push(value: number): void {
    if (this.length === this.#values.length) this.#grow();
    this.#values[this.length++] = value;
  }

  at(index: number): number {
    return this.#values[index] as number; // callers stay below length
  }

  clear(): void {
    this.length = 0;
  }

  /** All values as a plain array, each through `map`. */
  toArray(map: (value: number) => number = (value) => value): number[] {
    const out = new Array<number>(this.length);
    for (let i = 0; i < this.length; i++) out[i] = map(this.at(i));
    return out;
  }

  #grow(): void {
    const size = this.#values.length * 2;
    const larger = this.#values instanceof Float64Array ? new Float64Array(size) : new Int32Array(size);
    larger.set(this.#values);
    this.#values = larger;
  }
}

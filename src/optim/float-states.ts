import type { Tag } from '../core/events';
import type { StateMemory } from './state-memory';
import type { BufferState, UpdateRange } from './update-rule';

/** States of one float32 per element, by name; `apply` is the update that uses them. */
export class FloatStates<T> implements BufferState<T> {
  readonly #memory: StateMemory<T>;
  readonly #arrays: ReadonlyMap<string, T>;
  readonly #apply: (range: UpdateRange<T>, arrays: readonly T[]) => void;

  constructor(
    memory: StateMemory<T>,
    names: readonly string[],
    place: { readonly size: number; readonly tag: Tag },
    apply: (range: UpdateRange<T>, arrays: readonly T[]) => void,
  ) {
    this.#memory = memory;
    this.#arrays = new Map(names.map((name) => [name, memory.zeros(place.size, place.tag)]));
    this.#apply = apply;
  }

  update(range: UpdateRange<T>): void {
    this.#apply(range, [...this.#arrays.values()]);
  }

  read(name: string, offset: number, length: number): Float32Array {
    return this.#view(name).slice(offset, offset + length);
  }

  write(name: string, offset: number, values: Float32Array): void {
    this.#view(name).set(values, offset);
  }

  dispose(): void {
    for (const array of this.#arrays.values()) this.#memory.dispose(array);
  }

  #view(name: string): Float32Array {
    // The optimizer checked the name.
    const { buffer, byteOffset, byteLength } = this.#memory.bytesOf(this.#arrays.get(name) as T);
    return new Float32Array(buffer, byteOffset, byteLength / 4);
  }
}

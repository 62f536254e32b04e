/** A position of a cell's compiled code and the position in the source from which it comes; lines and columns count from 0. */
interface Mapping {
  readonly line: number;
  readonly column: number;
  readonly sourceLine: number;
  readonly sourceColumn: number;
}

const INLINE_MAP = /\/\/# sourceMappingURL=data:application\/json;base64,([A-Za-z0-9+/=]+)\s*$/;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The positions of a compiled cell. */
export class Positions {
  /** In the order of the compiled code. */
  readonly #mappings: readonly Mapping[];

  /** Reads the source map at the end of a compiled cell. */
  constructor(js: string) {
    const coded = INLINE_MAP.exec(js)?.[1] ?? '';
    // This package's compiler wrote the map.
    const { mappings } = (coded === '' ? {} : JSON.parse(Buffer.from(coded, 'base64').toString())) as {
      readonly mappings?: string;
    };
    this.#mappings = decode(mappings ?? '');
  }

  /** Returns the position in the source of a position in the compiled code. */
  sourceOf(line: number, column: number): { readonly line: number; readonly column: number } {
    const before = this.#mappings.findLast(
      (mapping) => mapping.line < line || (mapping.line === line && mapping.column <= column),
    );
    return before === undefined ? { line, column } : { line: before.sourceLine, column: before.sourceColumn };
  }

  /** Returns where the code of a source line begins, or of the next line that has code; undefined if no code follows. */
  startOf(sourceLine: number): Mapping | undefined {
    let start: Mapping | undefined;
    for (const mapping of this.#mappings) {
      if (mapping.sourceLine < sourceLine) continue;
      if (start === undefined || mapping.sourceLine < start.sourceLine) start = mapping;
    }
    return start;
  }
}

/** Decodes the mappings of a source map with one source. Source: ECMA-426, "mappings" */
function decode(mappings: string): Mapping[] {
  const decoded: Mapping[] = [];
  let sourceLine = 0;
  let sourceColumn = 0;
  for (const [line, segments] of mappings.split(';').entries()) {
    let column = 0;
    for (const segment of segments.split(',')) {
      const [columnStep, , lineStep, sourceColumnStep] = decodeNumbers(segment);
      column += columnStep ?? 0;
      if (lineStep === undefined || sourceColumnStep === undefined) continue;
      sourceLine += lineStep;
      sourceColumn += sourceColumnStep;
      decoded.push({ line, column, sourceLine, sourceColumn });
    }
  }
  return decoded;
}

/** Decodes numbers of 5 bits per digit, whose lowest bit is the sign. */
function decodeNumbers(text: string): number[] {
  const numbers: number[] = [];
  let value = 0;
  let shift = 0;
  for (const digit of text) {
    const bits = DIGITS.indexOf(digit);
    value |= (bits & 31) << shift;
    shift += 5;
    if (bits > 31) continue;
    numbers.push((value & 1) === 1 ? -(value >>> 1) : value >>> 1);
    value = 0;
    shift = 0;
  }
  return numbers;
}

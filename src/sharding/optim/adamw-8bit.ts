import { ADAMW_8BIT_DEFAULTS, MIN_8BIT_SIZE } from '../../config';
import { ConfigError, type Tag } from '../../core';
import { type DynamicMapKind, dynamicMap, type Quantized, SIGNED_ZERO } from '../../engine';
import type { StateBuffer } from '../../nn';
import { type AdamWOptions, adamFactors, adamSettings, adamWRule } from './adamw';
import { optimizerClass } from './rule-optimizer';
import type { BufferState, FlatArray, StateMemory, UpdateRule } from './update-rule';

/** A block that is written in parts. The block is encoded when it is complete, because all its values share a scale. */
interface OpenBlock {
  readonly values: Float32Array;
  numWritten: number;
}

/** Numbers that are stored as one-byte codes with a scale per block; callers read and write floats. */
class BlockwiseValues<T extends FlatArray> {
  readonly arrays: Quantized<T>;
  readonly #memory: StateMemory<T>;
  readonly #size: number;
  readonly #blockSize: number;
  readonly #kind: DynamicMapKind;
  readonly #map: Float32Array;
  readonly #open = new Map<number, OpenBlock>();

  constructor(
    memory: StateMemory<T>,
    place: { readonly size: number; readonly tag: Tag },
    blockSize: number,
    kind: DynamicMapKind,
  ) {
    this.#memory = memory;
    this.#size = place.size;
    this.#blockSize = blockSize;
    this.#kind = kind;
    this.#map = dynamicMap(kind);
    // 'bool' is tfjs's dtype of one byte. With a scale of 0, all values are 0.
    const codes = memory.zeros(place.size, place.tag, 'bool');
    this.arrays = { codes, scales: memory.zeros(Math.ceil(place.size / blockSize), place.tag) };
  }

  read(offset: number, length: number): Float32Array {
    this.close();
    const { codes, scales } = this.#views();
    return Float32Array.from({ length }, (_, i) => {
      const at = offset + i;
      return (this.#map[codes[at] ?? 0] ?? 0) * (scales[Math.floor(at / this.#blockSize)] ?? 0);
    });
  }

  /** Writes values. If the values of a whole block are the values that `read` returned, the block does not change. */
  write(offset: number, values: Float32Array): void {
    for (let at = 0; at < values.length; ) {
      const block = Math.floor((offset + at) / this.#blockSize);
      const start = block * this.#blockSize;
      const length = Math.min(values.length - at, start + this.#lengthOf(block) - offset - at);
      const open = this.#open.get(block) ?? { values: this.#decode(block), numWritten: 0 };
      open.values.set(values.subarray(at, at + length), offset + at - start);
      open.numWritten += length;
      if (open.numWritten >= open.values.length) {
        this.#open.delete(block);
        this.#encode(block, open.values);
      } else {
        this.#open.set(block, open);
      }
      at += length;
    }
  }

  /** Encodes the blocks that are not complete. */
  close(): void {
    for (const [block, { values }] of this.#open) this.#encode(block, values);
    this.#open.clear();
  }

  dispose(): void {
    this.arrays.codes.dispose();
    this.arrays.scales.dispose();
  }

  #lengthOf(block: number): number {
    return Math.min(this.#blockSize, this.#size - block * this.#blockSize);
  }

  #views(): { readonly codes: Uint8Array; readonly scales: Float32Array } {
    const codes = this.#memory.bytesOf(this.arrays.codes);
    const { buffer, byteOffset, byteLength } = this.#memory.bytesOf(this.arrays.scales);
    return { codes, scales: new Float32Array(buffer, byteOffset, byteLength / 4) };
  }

  #decode(block: number): Float32Array {
    const { codes, scales } = this.#views();
    const start = block * this.#blockSize;
    const scale = scales[block] ?? 0;
    return Float32Array.from(
      codes.subarray(start, start + this.#lengthOf(block)),
      (code) => (this.#map[code] ?? 0) * scale,
    );
  }

  #encode(block: number, values: Float32Array): void {
    const { codes, scales } = this.#views();
    const scale = this.#scaleFor(values);
    scales[block] = scale;
    const start = block * this.#blockSize;
    values.forEach((value, i) => {
      codes[start + i] = this.#codeOf(value, scale);
    });
  }

  /**
   * Returns the largest absolute value as the scale, or, if the values are not exact with this scale, a scale with which they are
   * exact. The second case occurs if the value with the largest magnitude in a decoded block is negative, because its magnitude
   * is then at most 0.993 of the block's scale.
   */
  #scaleFor(values: Float32Array): number {
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    if (this.#kind === 'unsigned') return largest;
    const [lowest = -1] = this.#map;
    const isExact = (scale: number): boolean =>
      values.every((value) => Math.fround((this.#map[this.#codeOf(value, scale)] ?? 0) * scale) === value);
    return [largest, ...neighbours(-largest / lowest)].find(isExact) ?? largest;
  }

  #codeOf(value: number, scale: number): number {
    const part = scale === 0 ? 0 : Math.fround(value / scale);
    const zero = this.#kind === 'signed' ? SIGNED_ZERO : 0;
    const most = part < 0 ? zero : this.#map.length - 1 - zero;
    let [low, high] = [0, most];
    while (low < high) {
      const middle = (low + high) >> 1;
      const between = ((this.#map[zero + middle] ?? 0) + (this.#map[zero + middle + 1] ?? 0)) / 2;
      if (Math.abs(part) > Math.fround(between)) low = middle + 1;
      else high = middle;
    }
    return part < 0 ? zero - low : zero + low;
  }
}

/** Returns the float32 nearest to a positive number, then the two float32 numbers below it and the two above it. */
function neighbours(value: number): number[] {
  const bits = new Int32Array(Float32Array.of(value).buffer)[0] ?? 0;
  return [0, -1, 1, -2, 2].map((step) => new Float32Array(Int32Array.of(bits + step).buffer)[0] ?? 0);
}

/** The settings of AdamW, and the block size. */
export interface AdamW8bitOptions extends Omit<AdamWOptions, 'amsgrad'> {
  /** The number of elements that share a scale. */
  readonly blockSize?: number;
}

/**
 * AdamW with moments of one byte per element: a code of a dynamic map (signed for the first moment, unsigned for the
 * second), and a float32 scale per block (its largest absolute value). A step decodes the moments, updates as AdamW does, and
 * encodes them again; the parameter's update uses the moments before they are encoded. Each state buffer (a parameter or a flat
 * shard) is divided into blocks, so a shard has other blocks than the whole parameter. Buffers below 4096 elements have float32
 * moments.
 * Source: Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization; bitsandbytes' AdamW8bit.
 */
export class AdamW8bit extends optimizerClass<AdamW8bitOptions>(
  'AdamW8bit',
  ADAMW_8BIT_DEFAULTS,
  adamW8bitRule,
) {}

type Settings = Omit<Required<AdamW8bitOptions>, 'lr' | 'fused'>;

/** Returns the rule of AdamW with moments of one byte. */
export function adamW8bitRule(settings: Settings): UpdateRule {
  const whole = adamWRule({ ...settings, amsgrad: false });
  return {
    stateNames: whole.stateNames,
    granularity: settings.blockSize,
    settings: adamSettings(settings),
    maximize: settings.maximize,
    check: requireEqualCopies,
    createState: (memory, size, tag) =>
      size < MIN_8BIT_SIZE
        ? whole.createState(memory, size, tag)
        : quantizedMoments(memory, { size, tag }, settings),
  };
}

/**
 * Throws: CONFIG if other ranks have a copy of a parameter that is in one buffer with other parameters. A block may then contain
 * elements of several parameters, so scales and codes of the copies would differ, and the copies would become different.
 */
function requireEqualCopies({ name, size, slices }: StateBuffer): void {
  const copy = slices.length > 1 ? slices.find(({ parameter }) => parameter.copiedBy !== null) : undefined;
  if (copy === undefined || size < MIN_8BIT_SIZE) return;
  const { parameter } = copy;
  throw new ConfigError(
    `AdamW8bit: ${parameter.copiedBy} have a copy of ${parameter.name}, which is in one unit${name === '' ? '' : ` ("${name}")`} with other ` +
      'parameters. Blocks of 8-bit states would mix these parameters, so the copies would become different. Use AdamW, ' +
      'or strategy NO_SHARD (DDP), which has separate states for each parameter. If the parameter is a tied embedding, ' +
      'tied: false in the model also avoids the copies',
  );
}

function quantizedMoments<T extends FlatArray>(
  memory: StateMemory<T>,
  place: { readonly size: number; readonly tag: Tag },
  settings: Settings,
): BufferState<T> {
  const { blockSize } = settings;
  const expAvg = new BlockwiseValues(memory, place, blockSize, 'signed');
  const expAvgSq = new BlockwiseValues(memory, place, blockSize, 'unsigned');
  const named = (name: string): BlockwiseValues<T> => (name === 'exp_avg' ? expAvg : expAvgSq);
  return {
    update(range) {
      expAvg.close();
      expAvgSq.close();
      const moments = { expAvg: expAvg.arrays, expAvgSq: expAvgSq.arrays, first: range.offset };
      memory.updates.adamW8bit({ ...range, ...adamFactors(settings, range.settings), ...moments, blockSize });
    },
    read: (name, offset, length) => named(name).read(offset, length),
    write: (name, offset, values) => named(name).write(offset, values),
    dispose() {
      expAvg.dispose();
      expAvgSq.dispose();
    },
  };
}

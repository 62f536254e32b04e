import { ConfigError } from '../../core';
import * as tf from '../../core/tf';
import { type IndexRange, type Module, Parameter, type TensorSplit, type ValueSource } from '../../nn';

/** One rank's part of a dim that is cut between ranks. */
export interface Cut {
  /** The ranges that this rank has, in order. */
  readonly ranges: readonly IndexRange[];
  /** The length of each rank's part, with padding. */
  readonly length: number;
  /** The number of ranks that have the same part. */
  readonly copies: number;
}

/** The number of ranks between which a dim is cut, and the index of this rank. */
export interface CutBetween {
  readonly ranks: number;
  readonly rank: number;
}

/** Cuts a dim into equal parts; if the number of ranks does not divide the length, the last parts are padded. */
export function evenCut(length: number, { ranks, rank }: CutBetween): Cut {
  const own = Math.ceil(length / ranks);
  const [begin, end] = [rank * own, (rank + 1) * own].map((at) => Math.min(at, length)) as [number, number];
  return { ranges: [{ begin, end }], length: own, copies: 1 };
}

/** How the outputs of a layer are arranged. */
export interface Arrangement {
  /** The number of heads of each fused tensor; a cut is always between two heads. */
  readonly heads: number;
  /** How many tensors are fused into one: 3 for queries, keys and values. */
  readonly parts: number;
  /** The layer's name, for messages. */
  readonly layer: string;
}

/**
 * Cuts a dim between heads. If there are more ranks than heads, several ranks have the same head (grouped-query attention).
 * Throws: CONFIG if neither the number of ranks nor the number of heads divides the other, or if the heads do not divide the
 * dim.
 */
export function headCut(length: number, { heads, parts, layer }: Arrangement, between: CutBetween): Cut {
  const { ranks, rank } = between;
  const width = length / parts;
  const [isFewer, isShared] = [heads % ranks === 0, ranks % heads === 0];
  if (!Number.isInteger(width / heads) || !(isFewer || isShared)) {
    throw new ConfigError(
      `tensor parallelism: "${layer}" cannot be cut into ${ranks} parts: its ${parts === 1 ? '' : `${parts} x `}${width} outputs are ` +
        `${heads} heads, a head is never divided, and ${heads} is neither a multiple nor a divisor of ${ranks}; choose a number of ranks ` +
        `that divides ${heads}, or a model with other heads`,
      { layer, heads, ranks },
    );
  }
  const copies = isFewer ? 1 : ranks / heads;
  const own = isFewer ? heads / ranks : 1;
  const first = Math.floor(rank / copies) * own;
  const headDim = width / heads;
  const ranges = Array.from({ length: parts }, (_, part) => {
    const begin = part * width + first * headDim;
    return { begin, end: begin + own * headDim };
  });
  return { ranges, length: parts * own * headDim, copies };
}

/** A part of a whole tensor, and the length of its split dim with padding. */
export interface SplitPart {
  readonly split: TensorSplit;
  readonly length: number;
}

/** Maps whole parameters to their parts, so that modules that share a parameter also share its part. */
export type Ties = Map<Parameter, Parameter>;

/**
 * Replaces a module's parameter by this rank's part of the parameter, which has the same name. Deferred values stay deferred,
 * so a rank computes or reads only the values of its part; the tensor of a parameter with values is freed. Throws: CONFIG if
 * another module shares the parameter and has cut it differently.
 */
export function splitParameter(module: Module, name: string, part: SplitPart, ties: Ties = new Map()): void {
  const whole = module.ownParameters.get(name);
  if (whole === undefined) return;
  const known = ties.get(whole);
  if (known !== undefined && !isSameCut(known.split, part.split)) {
    throw new ConfigError(
      `"${module.path}" and "${known.module}" share ${known.name}, but the plan cuts it along different dims; split the vocabulary of ` +
        'both (RowwiseParallel for the embedding, ColwiseParallel for the head), or do not tie them',
    );
  }
  const own = known ?? partOf(whole, part);
  ties.set(whole, own);
  const users = [...whole.users].filter((user) => user !== module);
  Reflect.set(module, name, own);
  for (const user of users) own.usedBy(user);
}

function partOf(whole: Parameter, { split, length }: SplitPart): Parameter {
  const shape = whole.shape.with(split.dim, length);
  const values = whole.isWhole ? new Float32Array(tf.util.sizeFromShape(shape)) : null;
  if (values !== null) {
    partSource(whole, split, length).fill(0, values);
    whole.free();
  }
  const own =
    values !== null
      ? new Parameter(tf.tensor(values, shape, 'float32'))
      : Parameter.deferred(shape, (place) => {
          whole.place({ ...place, module: whole.module });
          return partSource(whole, split, length);
        });
  own.requiresGrad = whole.requiresGrad;
  own.split = split;
  return own;
}

function isSameCut(a: TensorSplit | null, b: TensorSplit): boolean {
  const textOf = ({ dim, ranges }: TensorSplit): string => JSON.stringify([dim, ranges]);
  return a !== null && textOf(a) === textOf(b);
}

function partSource(whole: Parameter, { wholeShape, dim, ranges }: TensorSplit, length: number): ValueSource {
  const product = (extents: readonly number[]): number => extents.reduce((all, extent) => all * extent, 1);
  const inner = product(wholeShape.slice(dim + 1));
  const row = length * inner;
  const wholeRow = (wholeShape[dim] ?? 1) * inner;
  const read = readerOf(whole);
  return {
    fill(start, target) {
      const end = start + target.length;
      target.fill(0);
      for (let i = Math.floor(start / row); i * row < end; i++) {
        let at = i * row;
        for (const range of ranges) {
          const size = (range.end - range.begin) * inner;
          const [from, to] = [Math.max(start, at), Math.min(end, at + size)];
          if (from < to)
            read(i * wholeRow + range.begin * inner + from - at, target.subarray(from - start, to - start));
          at += size;
        }
      }
    },
  };
}

/** Returns a function that reads elements of a parameter, from the parameter's tensor or from its deferred values. */
function readerOf(whole: Parameter): (start: number, target: Float32Array) => void {
  const { source } = whole;
  if (source !== null) return (start, target) => source.fill(start, target);
  const values = whole.tensor.dataSync() as Float32Array; // trainable parameters are float32
  return (start, target) => target.set(values.subarray(start, start + target.length));
}

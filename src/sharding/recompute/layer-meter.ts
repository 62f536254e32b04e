import { type Bytes, itemBytes } from '../../core';
import type * as tf from '../../core/tf';
import { type Engine, FUSED, type Meter, type RecordedNode } from '../../engine';

/** Kernels that only move or reshape values. */
const NO_FLOPS: ReadonlySet<string> = new Set([
  'Cast',
  'Concat',
  'ExpandDims',
  'Identity',
  'Pack',
  'Reshape',
  'Slice',
  'SplitV',
  'Transpose',
  'Unpack',
]);

/** The bytes that a layer saves for backward, and the cost of its forward. */
export interface LayerCost {
  /** Bytes that the layer saves without checkpointing. */
  readonly savedBytes: Bytes;
  /** Bytes that the layer saves with checkpointing: its inputs. */
  readonly inputBytes: Bytes;
  /** Floating-point operations of the layer's forward, which run again with checkpointing. */
  readonly flops: number;
}

/** Counts the operations of a layer's forward and the bytes that the layer would save; each buffer counts once. */
export class LayerMeter {
  readonly #engine: Engine;
  readonly #saved = new Map<object, Bytes>();
  readonly #inputs = new Map<object, Bytes>();
  #flops = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get cost(): LayerCost {
    return { savedBytes: sum(this.#saved), inputBytes: sum(this.#inputs), flops: this.#flops };
  }

  /** Resets the counts when a forward begins. */
  restart(): void {
    this.#saved.clear();
    this.#inputs.clear();
    this.#flops = 0;
  }

  noteInputs(inputs: readonly tf.Tensor[]): void {
    this.#note(inputs, this.#inputs);
  }

  readonly meter: Meter = (node, saved) => {
    this.#note(saved, this.#saved);
    this.#flops += layerFlopsOf(node);
  };

  /** Adds tensors' bytes; parameters and batches do not count, because they are in memory anyway. */
  #note(tensors: readonly tf.Tensor[], to: Map<object, Bytes>): void {
    for (const tensor of tensors) {
      const { cause } = this.#engine.tagOf(tensor);
      if (cause !== 'temp' && cause !== 'activation') continue;
      // The engine has no other dtypes.
      to.set(tensor.dataId, tensor.size * itemBytes(tensor.dtype as 'float32' | 'int32' | 'bool'));
    }
  }
}

function sum(bytes: ReadonlyMap<object, Bytes>): Bytes {
  return [...bytes.values()].reduce((total, part) => total + part, 0);
}

/** Returns an operation's multiplications and additions: one per element except in matmuls, attention and convolutions. */
export function layerFlopsOf({
  kernelName,
  inputs,
  outputs,
}: Pick<RecordedNode, 'kernelName' | 'inputs' | 'outputs'>): number {
  const size = outputs[0]?.size ?? 0;
  switch (kernelName) {
    case FUSED.linear:
      return 2 * size * (inputs.x?.shape.at(-1) ?? 0);
    case FUSED.causalAttention:
      // Two matmuls: queries with keys, and scores with values, for all pairs of positions.
      return 4 * size * (inputs.qkv?.shape[1] ?? 0);
    case FUSED.flashAttention:
      return 4 * size * (inputs.k?.shape[1] ?? 0);
    case 'BatchMatMul':
    case '_FusedMatMul':
      return 2 * size * innerLength(inputs.a, inputs.b, outputs[0]);
    case 'Conv2D':
    case 'FusedConv2D':
      return (2 * size * (inputs.filter?.size ?? 0)) / (outputs[0]?.shape.at(-1) ?? 1);
    case FUSED.conv2d:
      return (2 * size * (inputs.filter?.size ?? 0)) / (outputs[0]?.shape[1] ?? 1);
    case FUSED.conv2dInputGrad: // a transposed convolution
      return (2 * (inputs.dy?.size ?? 0) * (inputs.filter?.size ?? 0)) / (inputs.dy?.shape[1] ?? 1);
    default:
      return NO_FLOPS.has(kernelName) ? 0 : size;
  }
}

/** Returns the length k over which a matmul sums, for plain and for transposed inputs: (m·k)(k·n) = (m·n)·k². */
function innerLength(...[a, b, product]: readonly (tf.Tensor | undefined)[]): number {
  return Math.sqrt((matrixSize(a) * matrixSize(b)) / Math.max(1, matrixSize(product)));
}

function matrixSize(tensor: tf.Tensor | undefined): number {
  const [rows = 0, columns = 0] = tensor?.shape.slice(-2) ?? [];
  return rows * columns;
}

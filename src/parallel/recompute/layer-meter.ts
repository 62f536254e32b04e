import type { RecordedNode } from '../../autograd/recording';
import type { Meter } from '../../autograd/sieve';
import type { Engine } from '../../backend/engine';
import { FUSED } from '../../backend/fused/fused-kernel';
import { itemBytes } from '../../core/dtypes';
import type * as tf from '../../core/tf';
import type { Bytes } from '../../core/units';

/** Kernels that move or rename values. */
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
  /** Bytes saved without checkpointing. */
  readonly savedBytes: Bytes;
  /** Bytes saved with checkpointing: its inputs. */
  readonly inputBytes: Bytes;
  /** Floating-point operations of its forward: the cost of running it again. */
  readonly flops: number;
}

/** Counts the bytes that a layer's forward would save, each buffer once, and its operations. */
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

  /** Called when a forward begins; forgets the counts of an aborted forward. */
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
    this.#flops += flopsOf(node);
  };

  /** Parameters and batches are held anyway, so they do not count. */
  #note(tensors: readonly tf.Tensor[], to: Map<object, Bytes>): void {
    for (const tensor of tensors) {
      const { cause } = this.#engine.tagOf(tensor);
      if (cause !== 'temp' && cause !== 'activation') continue;
      // The engine has no other types.
      to.set(tensor.dataId, tensor.size * itemBytes(tensor.dtype as 'float32' | 'int32' | 'bool'));
    }
  }
}

function sum(bytes: ReadonlyMap<object, Bytes>): Bytes {
  return [...bytes.values()].reduce((total, part) => total + part, 0);
}

/** Multiplications and additions of an operation; one per element unless it is a matmul. */
export function flopsOf({
  kernelName,
  inputs,
  outputs,
}: Pick<RecordedNode, 'kernelName' | 'inputs' | 'outputs'>): number {
  const size = outputs[0]?.size ?? 0;
  switch (kernelName) {
    case FUSED.linear:
      return 2 * size * (inputs.x?.shape.at(-1) ?? 0);
    case FUSED.causalAttention:
      // Scores and their matmul with the values, for all pairs of positions.
      return 4 * size * (inputs.qkv?.shape[1] ?? 0);
    case FUSED.flashAttention:
      return 4 * size * (inputs.k?.shape[1] ?? 0);
    case 'BatchMatMul':
    case '_FusedMatMul':
      return 2 * size * innerLength(inputs.a, inputs.b, outputs[0]);
    case 'Conv2D':
    case 'FusedConv2D':
      return (2 * size * (inputs.filter?.size ?? 0)) / (outputs[0]?.shape.at(-1) ?? 1);
    default:
      return NO_FLOPS.has(kernelName) ? 0 : size;
  }
}

/** The length over which a matmul sums, whether or not its operands are transposed: (m·k)(k·n) = (m·n)·k². */
function innerLength(...[a, b, product]: readonly (tf.Tensor | undefined)[]): number {
  return Math.sqrt((matrixSize(a) * matrixSize(b)) / Math.max(1, matrixSize(product)));
}

function matrixSize(tensor: tf.Tensor | undefined): number {
  const [rows = 0, columns = 0] = tensor?.shape.slice(-2) ?? [];
  return rows * columns;
}

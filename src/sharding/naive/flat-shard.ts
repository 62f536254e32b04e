import type * as tf from '../../core/tf';
import type { Parameter, StateBuffer, StateSegment, StateSlice, TensorSpan } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { firstShard } from '../fsdp/first-chunks';
import { chunkOf, type ShardLayout, shardLayout } from '../fsdp/shard-layout';
import type { RankContext } from '../run-as-unit';

/** One rank's rows of all parameters in one flat tensor, and the gradient of these rows; the optimizer updates this tensor. */
export class FlatShard implements StateBuffer {
  readonly layout: ShardLayout;
  readonly name: string;
  readonly module: string;
  readonly size: number;
  readonly shardGroup: ProcessGroup;
  readonly isLocal = false;
  readonly slices: readonly StateSlice[];
  readonly values: tf.Tensor;
  /** The mean gradient; null before backward and after `zeroGrad`. */
  grad: tf.Tensor | null = null;

  /** All ranks compute the same initial values from the seed; each rank stores only its own rows. */
  constructor(module: string, parameters: readonly Parameter[], { engine, group }: RankContext) {
    const layout = shardLayout(parameters, group.size);
    this.layout = layout;
    this.name = module;
    this.module = module;
    this.size = layout.size;
    this.shardGroup = group;
    this.slices = layout.entries.map((entry) => {
      return { parameter: entry.parameter, offset: entry.offset, ...chunkOf(entry, group.rank) };
    });
    const first = firstShard({ engine, module, syncGroup: null }, layout, group.rank, false);
    this.values = (first as TensorSpan).tensor; // the tensor is not on the host
  }

  segments(): readonly StateSegment[] {
    const { values, grad, size: length } = this;
    const spanOf = (tensor: tf.Tensor) => ({ tensor, offset: 0 });
    return [{ offset: 0, length, values: spanOf(values), grad: grad === null ? null : spanOf(grad) }];
  }

  zeroGrad(): void {
    this.grad?.dispose();
    this.grad = null;
  }

  updated(): void {
    // Nothing is stale: whole parameters are gathered for each forward and backward.
    for (const { parameter } of this.slices) parameter.version++;
  }

  dispose(): void {
    this.zeroGrad();
    this.values.dispose();
  }
}

import type * as tf from '../../core/tf';
import type { ProcessGroup } from '../../dist/types';
import type { Parameter, StateBuffer, StateSegment, StateSlice, TensorSpan } from '../../nn/parameter';
import { firstShard } from '../fsdp/first-chunks';
import { chunkOf, type ShardLayout, shardLayout } from '../fsdp/shard-layout';
import type { RankContext } from '../run-as-unit';

/** One rank's rows of parameters, one after another, with their gradient: what an optimizer updates and stores states for. */
export class FlatShard implements StateBuffer {
  readonly layout: ShardLayout;
  readonly name: string;
  readonly module: string;
  readonly size: number;
  readonly shardGroup: ProcessGroup;
  readonly isLocal = false;
  readonly slices: readonly StateSlice[];
  readonly values: tf.Tensor;
  /** The mean gradient; null while there is none. */
  grad: tf.Tensor | null = null;

  /** All ranks know the same first values; each stores its own rows of them. */
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
    this.values = (first as TensorSpan).tensor; // it is not on the host
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
    // Whole parameters are gathered for every forward and backward.
  }

  dispose(): void {
    this.zeroGrad();
    this.values.dispose();
  }
}

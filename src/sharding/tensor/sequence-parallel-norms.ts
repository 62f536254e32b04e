import type * as tf from '../../core/tf';
import { LayerNorm, type Parameter, RMSNorm } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { copyToTensorParallelRegion } from './mappings';

// Each rank normalizes its part of the sequence. The gradients of weight and bias are sums over the whole sequence, so backward
// all-reduces these gradients: f of [Note: f and g] is applied to the parameters.

/** A `LayerNorm` of a part of the sequence. */
export class SequenceParallelLayerNorm extends LayerNorm<boolean> {
  declare readonly sequenceGroup: ProcessGroup;

  override forward(x: tf.Tensor): tf.Tensor {
    const shared = sharedOver(this.sequenceGroup, this.path);
    return this.normalized(x, shared(this.weight), shared(this.bias));
  }
}

/** An `RMSNorm` of a part of the sequence. */
export class SequenceParallelRMSNorm extends RMSNorm {
  declare readonly sequenceGroup: ProcessGroup;

  override forward(x: tf.Tensor): tf.Tensor {
    return this.normalized(x, sharedOver(this.sequenceGroup, this.path)(this.weight));
  }
}

/** Makes a `LayerNorm` or an `RMSNorm` normalize a part of the sequence, in place. */
export function toSequenceParallel(norm: LayerNorm<boolean> | RMSNorm, group: ProcessGroup): void {
  const { prototype } = norm instanceof RMSNorm ? SequenceParallelRMSNorm : SequenceParallelLayerNorm;
  Object.assign(norm, { sequenceGroup: group });
  // The object stays the same, because a new object would have to replace it in fields and containers.
  Object.setPrototypeOf(norm, prototype);
}

function sharedOver(group: ProcessGroup, module: string) {
  // A norm without scale or bias has null as `weight` or `bias`.
  return (parameter: Parameter | null): tf.Tensor | undefined =>
    parameter === null ? undefined : copyToTensorParallelRegion(parameter.tensor, group, module);
}

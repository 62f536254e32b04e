import type { Bytes, Seconds } from '../../core/units';
import { STRATEGIES } from '../../parallel/strategy';
import type { Calibration } from '../calibration';
import {
  BUS_FACTOR,
  collectiveSeconds,
  type GroupOperation,
  type GroupPlace,
  placeOf,
} from '../cost/collective';
import type { Layout } from '../layout';

/** Bytes a parameter or gradient has on the wire. */
export interface WireItems {
  readonly param: Bytes;
  readonly grad: Bytes;
}

/**
 * fully_shard of TorchTitan: parameters bf16, reduction float32. Megatron-LM: bf16 gradients add up and travel in float32,
 * fp16 ones as they are. DeepSpeed: both at the training precision. Source: the programs' defaults.
 */
export function wireItems({ stack, precision }: Layout): WireItems {
  if (precision === 'fp32') return { param: 4, grad: 4 };
  const grad = stack === 'fsdp2' || (stack === 'megatron' && precision !== 'fp16') ? 4 : 2;
  return { param: 2, grad };
}

/** The groups that data parallelism talks in: those that share shards, and copies of the same shard. */
interface Groups {
  readonly shards: GroupPlace;
  readonly copies: GroupPlace;
}

function groupsOf({ tp, cp, dp, shards, hardware }: Layout): Groups {
  return {
    shards: placeOf(shards, tp, hardware.gpusPerNode),
    copies: placeOf((dp * cp) / shards, tp * shards, hardware.gpusPerNode),
  };
}

/** What data parallelism does with `params` parameters of a rank. */
export interface UnitComm {
  /** Before forward, before backward, and after it. */
  readonly gather: Seconds;
  readonly regather: Seconds;
  readonly reduce: Seconds;
  /** Received by a GPU, in the same order. */
  readonly gatherBytes: Bytes;
  readonly regatherBytes: Bytes;
  readonly reduceBytes: Bytes;
}

/** Collectives of one unit of fully_shard or ZeRO-3, or of one bucket of replicated gradients. */
export function unitComm(layout: Layout, params: number, cal: Calibration): UnitComm {
  const { strategy, hardware } = layout;
  const { shardedAtRest } = STRATEGIES[strategy];
  const item = wireItems(layout);
  const groups = groupsOf(layout);
  const run = (op: GroupOperation, bytes: Bytes, place: GroupPlace): Seconds =>
    collectiveSeconds(op, bytes, place, hardware, cal);
  const wire = (op: GroupOperation, bytes: Bytes, { size }: GroupPlace): Bytes =>
    size <= 1 ? 0 : bytes * BUS_FACTOR[op](size);
  const gathers = shardedAtRest.includes('parameter');
  const again = gathers && reshardsAfterForward(layout);
  const gather = gathers ? run('allGather', params * item.param, groups.shards) : 0;
  const gatherBytes = gathers ? wire('allGather', params * item.param, groups.shards) : 0;
  const op = shardedAtRest.includes('gradient') ? 'reduceScatter' : 'allReduce';
  const whole = op === 'allReduce' ? layout.dp * layout.cp : groups.shards.size;
  const place = op === 'allReduce' ? placeOf(whole, layout.tp, hardware.gpusPerNode) : groups.shards;
  const chunk = (params * item.grad) / groups.shards.size;
  const copies = op === 'allReduce' ? 0 : run('allReduce', chunk, groups.copies);
  return {
    gather,
    regather: again ? gather : 0,
    reduce: run(op, params * item.grad, place) + copies,
    gatherBytes,
    regatherBytes: again ? gatherBytes : 0,
    reduceBytes:
      wire(op, params * item.grad, place) + (copies > 0 ? wire('allReduce', chunk, groups.copies) : 0),
  };
}

/** Under pipelines TorchTitan keeps whole parameters until the step's end. Source: its reshard_after_forward 'default'. */
export function reshardsAfterForward({ strategy, stack, pp }: Layout): boolean {
  return STRATEGIES[strategy].reshardAfterForward && !(stack === 'fsdp2' && pp > 1);
}

/** Whether every micro-batch gathers and reduces, rather than the first and the last one. */
export function commPerMicroBatch({ strategy, stack, pp }: Layout): { gather: boolean; reduce: boolean } {
  const { shardedAtRest } = STRATEGIES[strategy];
  const keeps = stack === 'fsdp2' && pp > 1;
  return {
    gather: shardedAtRest.includes('parameter') && !keeps,
    reduce: shardedAtRest.includes('gradient') && !keeps,
  };
}

/** All-gather of updated parameters after a step that shards the optimizer alone (or with gradients). */
export function afterStep(
  layout: Layout,
  params: number,
  cal: Calibration,
): { seconds: Seconds; bytes: Bytes } {
  const { shardedAtRest } = STRATEGIES[layout.strategy];
  const needed = shardedAtRest.includes('optimizer') && !shardedAtRest.includes('parameter');
  // DeepSpeed's stage 2 is SHARD_GRAD_OP by PyTorch's name: parameters stay whole there, and are gathered after the step.
  if (!needed) return { seconds: 0, bytes: 0 };
  const { shards } = groupsOf(layout);
  const bytes = params * wireItems(layout).param;
  return {
    seconds: collectiveSeconds('allGather', bytes, shards, layout.hardware, cal),
    bytes: shards.size <= 1 ? 0 : bytes * BUS_FACTOR.allGather(shards.size),
  };
}

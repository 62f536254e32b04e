import { type CommHookConfig, STRATEGIES } from '../../config';
import type { Bytes, Seconds } from '../../core';
import type { Calibration } from '../calibration';
import {
  BUS_FACTOR,
  collectiveSeconds,
  type GroupOperation,
  type GroupPlace,
  groupPlaceOf,
  passLatency,
} from '../cost/collective';
import { ITEM_BYTES } from '../cost/gemm';
import type { Layout } from '../layout';
import { MAX_LIVE, PREFETCH } from '../memory/whole-units';
import { traitsOf } from '../model-shape';
import { shardedStates, usualReduceDtype } from '../stack-rules';

/**
 * Returns the bytes of a parameter and of a gradient on the wire. TorchTitan's fully_shard gathers parameters in bf16
 * (in fp8 for fp8 matmuls, see [Note: FSDP2's units]) and reduces in float32. Megatron-LM sums and sends bf16 gradients in
 * float32, and fp16 gradients in fp16. DeepSpeed sends both in the training precision. Source: the frameworks' defaults.
 */
function wireItems({ stack, precision, reduceDtype, fp8AllGather }: Layout) {
  const grad = ITEM_BYTES[reduceDtype ?? usualReduceDtype(stack, precision)];
  return { param: precision === 'fp32' ? 4 : fp8AllGather ? 1 : 2, grad };
}

/** Returns the groups of data parallelism: ranks that share shards, and ranks with replicas of the same shard. */
function groupsOf({ tp, cp, dp, shards, hardware }: Layout) {
  return {
    shards: groupPlaceOf(shards, tp, hardware.gpusPerNode),
    copies: groupPlaceOf((dp * cp) / shards, tp * shards, hardware.gpusPerNode),
  };
}

/**
 * Returns the collectives of one unit of fully_shard or ZeRO-3, or of one bucket of gradients. `gather` runs before forward,
 * `regather` before backward and `reduce` after backward; each has seconds, and bytes that a GPU receives. A rank that updates
 * a part of the parameters needs only this part of the gradients. Source: Megatron-LM's distributed optimizer (reduce-scatter
 * of its gradient buffers); DeepSpeed's reduce_scatter, on by default at stages 1 and 2.
 */
export function unitComm(layout: Layout, params: number, cal: Calibration) {
  const { hardware } = layout;
  const sharded = shardedStates(layout);
  const item = wireItems(layout);
  const gradients = params * layout.trainedShare * item.grad;
  const groups = groupsOf(layout);
  const run = (op: GroupOperation, bytes: Bytes, place: GroupPlace): Seconds =>
    collectiveSeconds(op, bytes, place, hardware, cal) + partsLatency(layout, params, place, cal);
  const gathers = sharded.includes('parameter');
  const again = gathers ? numRegathers(layout) : 0;
  const gather = gathers ? run('allGather', params * item.param, groups.shards) : 0;
  const gatherBytes = gathers ? wireBytes('allGather', params * item.param, groups.shards) : 0;
  const op = sharded.includes('optimizer') ? 'reduceScatter' : 'allReduce';
  const all = groupPlaceOf(layout.dp * layout.cp, layout.tp, hardware.gpusPerNode);
  const place = op === 'allReduce' ? all : groups.shards;
  const chunk = gradients / groups.shards.size;
  const copies = op === 'allReduce' ? 0 : run('allReduce', chunk, groups.copies);
  const sent: ReturnType<typeof compressed> =
    op === 'allReduce' && layout.commHook !== null
      ? compressed(layout, layout.commHook, params * layout.trainedShare)
      : { op, bytes: gradients };
  return {
    gather,
    regather: again * gather,
    reduce: run(sent.op, sent.bytes, place) + copies,
    gatherBytes,
    regatherBytes: again * gatherBytes,
    reduceBytes:
      wireBytes(sent.op, sent.bytes, place) + (copies > 0 ? wireBytes('allReduce', chunk, groups.copies) : 0),
  };
}

/**
 * Returns the latency of the further collectives into which DeepSpeed's ZeRO-3 divides a unit: a matrix that is larger than
 * stage3_prefetch_bucket_size is gathered and reduced by itself. Source: DeepSpeed's runtime/zero (partitioned_param_coordinator.py,
 * stage3.py).
 */
function partsLatency(layout: Layout, params: number, place: GroupPlace, cal: Calibration): Seconds {
  if (layout.stack !== 'deepspeed' || !shardedStates(layout).includes('parameter') || place.size <= 1)
    return 0;
  const matrices = (traitsOf(layout.model).hasSeparateQkv ? 4 : 2) + (layout.model.gatedFfn ? 3 : 2);
  const parts = Math.min(matrices, Math.max(1, Math.ceil(params / PREFETCH)));
  return (parts - 1) * (cal.collectiveSeconds + passLatency(place, cal));
}

/**
 * Returns how often a unit is gathered again before its backward. In TorchTitan's pipelines it is never gathered again, because
 * parameters are whole until the step's end (reshard_after_forward 'default'). fully_shard gathers a unit again once, also under
 * full recompute, because a layer is recomputed within its unit's backward. DeepSpeed gathers a unit again once, but twice under
 * full recompute, because hooks also free and gather the unit around the second forward.
 */
export function numRegathers({ strategy, stack, pp, recompute }: Layout): number {
  if (!STRATEGIES[strategy].reshardAfterForward || (stack === 'fsdp2' && pp > 1)) return 0;
  return stack === 'deepspeed' && recompute === 'full' ? 2 : 1;
}

/** How often a rank gathers a unit in a step: a layer, and the root (what is outside of the layers). */
export interface GatherCounts {
  readonly layer: number;
  readonly root: number;
}

/**
 * Returns how often a step gathers a unit. The root is whole until its backward, except in DeepSpeed, which frees all modules.
 *
 * [Note: FSDP in pipelines] Without resharding, a stage gathers each unit once per step. With resharding after forward, PyTorch's
 * pipelines still set set_reshard_after_backward(False) until the last microbatch: a forward gathers a unit unless a backward
 * left it whole, and a backward gathers it unless another backward left it whole. In every order of m forwards and m backwards,
 * this is m + 1 gathers per unit: all m in forward and one in backward under GPipe; one in forward per microbatch in flight, and
 * the others in backward, under 1F1B. Source: torch.distributed.pipelining, stage.py (backward_maybe_with_nosync);
 * torch.distributed.fsdp, FSDPModule.set_reshard_after_backward, and fully_shard's reshard_after_forward, which leaves the root
 * whole by default; TorchTitan's fsdp_reshard_after_forward, whose 'default' is no resharding in pipelines.
 */
export function gatherCounts(layout: Layout): GatherCounts {
  const { stack, pp, numMicroBatches: m, reshardsStages } = layout;
  if (!shardedStates(layout).includes('parameter')) return { layer: 0, root: 0 };
  if (stack === 'fsdp2' && pp > 1) return { layer: reshardsStages ? m + 1 : 1, root: 1 };
  const layer = m * (1 + numRegathers(layout));
  return { layer, root: stack === 'deepspeed' ? layer : m };
}

/** Returns the number of forwards of a step that gather a unit of a resharded stage: those that do not follow a backward. */
export function gatheringForwards({ schedule, numMicroBatches: m, pp }: Layout, place: number): number {
  return schedule === '1F1B' ? Math.min(m, pp - place) : m;
}

/**
 * Whether units are gathered while other units compute. DeepSpeed gathers ahead only while fewer parameters are whole than
 * stage3_max_live_parameters (1e9 by default), so it does not gather ahead if a layer has more parameters.
 */
export function gathersAhead({ stack, model, tp }: Layout): boolean {
  return stack !== 'deepspeed' || model.layerParams / tp < MAX_LIVE;
}

/**
 * Whether gradients are reduced while backward computes: in DDP, fully_shard and ZeRO-3. In Megatron-LM, reduction follows
 * backward, and in DeepSpeed's stages 1 and 2 it blocks backward. Source: the defaults (DeepSpeed's overlap_comm is true only
 * in stage 3, runtime/zero/config.py).
 */
export function overlapsReduction(layout: Layout): boolean {
  if (layout.stack === 'deepspeed') return shardedStates(layout).includes('parameter');
  return layout.stack !== 'megatron';
}

/**
 * Returns the bytes per parameter that fully_shard copies on the GPU in one all-gather (out of the gathered buffer, read and
 * written in 16 bits) and in one reduction (gradients into the buffer that is reduced). Source: foreach_all_gather_copy_out and
 * foreach_reduce_scatter_copy_in of torch.distributed.fsdp.
 */
export function copyBytes(layout: Layout) {
  if (!shardedStates(layout).includes('parameter')) return { gather: 0, reduce: 0 };
  const { param, grad } = wireItems(layout);
  return { gather: 2 * param, reduce: (param + grad) * layout.trainedShare };
}

/** Whether every microbatch gathers (otherwise only the first does) and reduces (otherwise only the last does). */
export function commPerMicroBatch(layout: Layout): { gather: boolean; reduce: boolean } {
  const sharded = shardedStates(layout);
  const keeps = layout.stack === 'fsdp2' && layout.pp > 1;
  return {
    gather: sharded.includes('parameter') && !keeps,
    reduce: sharded.includes('gradient') && !keeps,
  };
}

/** Returns the all-gather of updated parameters, if the optimizer is sharded but parameters are not. */
export function afterStep(layout: Layout, params: number, cal: Calibration) {
  const sharded = shardedStates(layout);
  const needed = sharded.includes('optimizer') && !sharded.includes('parameter');
  if (!needed) return { seconds: 0, bytes: 0 };
  const { shards } = groupsOf(layout);
  const bytes = params * layout.trainedShare * wireItems(layout).param;
  const seconds = collectiveSeconds('allGather', bytes, shards, layout.hardware, cal);
  return { seconds, bytes: wireBytes('allGather', bytes, shards) };
}

/** Returns the bytes that a GPU receives. */
function wireBytes(op: GroupOperation, bytes: Bytes, { size }: GroupPlace): Bytes {
  return size <= 1 ? 0 : bytes * BUS_FACTOR[op](size);
}

/**
 * Returns the collective of compressed gradients in float32. topK gathers values and indices of 4 bytes each. PowerSGD of
 * rank r reduces r (n + m) elements in place of n m. The share of elements that are left is computed over the matrices of blocks
 * and embeddings, and is used for all parameters.
 */
function compressed(
  { model, dp, cp }: Layout,
  hook: CommHookConfig,
  params: number,
): { readonly op: GroupOperation; readonly bytes: Bytes } {
  if (hook.kind === 'topK') return { op: 'allGather', bytes: 8 * hook.ratio * params * dp * cp };
  const { dim, layers, heads, kvHeads, headDim, ffn, gatedFfn, vocab, tied } = model;
  const block = [
    [dim, (heads + 2 * kvHeads) * headDim],
    [dim, heads * headDim],
    ...Array.from({ length: gatedFfn ? 3 : 2 }, () => [dim, ffn]),
  ];
  const embeddings = Array.from({ length: vocab === 0 ? 0 : tied ? 1 : 2 }, () => [vocab, dim]);
  const matrices = [...Array.from({ length: layers }, () => block).flat(), ...embeddings];
  const total = (elements: (rows: number, columns: number) => number): number =>
    matrices.reduce((sum, [rows = 1, columns = 1]) => sum + elements(rows, columns), 0);
  const rankSent = (rows: number, columns: number): number => {
    const factors = Math.min(rows, columns, hook.matrixApproximationRank) * (rows + columns);
    return factors * hook.minCompressionRate < rows * columns ? factors : rows * columns;
  };
  const share = total(rankSent) / total((rows, columns) => rows * columns);
  return { op: 'allReduce', bytes: 4 * share * params };
}

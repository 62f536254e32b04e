import { STRATEGIES } from '../../config/strategies';
import type { Layout } from '../layout';
import { shardedStates } from '../stack-rules';
import type { PipelineStage } from './pipeline-stage';
import type { StateBytes } from './state-bytes';

/** A layout that gathers nothing. */
const NONE = {
  /** Parameters, from a stage's forward to the begin of its backward. */
  parameters: 0,
  /** Gradients of the unit whose backward runs, and of those that wait to be reduced. */
  gradients: 0,
  /** Gradients summed over microbatches before they are reduced. */
  accumulated: 0,
  /** Inputs of the reduction that is on its way while the next unit's backward runs. */
  reducing: 0,
  /** All of the above at the end, when what belongs to no layer is reduced. */
  outer: { parameters: 0, gradients: 0, reducing: 0 },
  /** Results of gathers on their way, in memory of the gathering stream. */
  gathering: 0,
  /** Buffers of fixed size. */
  buckets: 0,
};

/** What a layout that gathers parameters holds of whole units, beside its shards; bytes. */
export type WholeUnits = Readonly<typeof NONE>;

/** DeepSpeed's reduce_bucket_size, stage3_max_live_parameters and stage3_prefetch_bucket_size, parameters. Source: its runtime/zero/config.py. */
const REDUCE_BUCKET = 5e8;
export const MAX_LIVE = 1e9;
const PREFETCH = 5e7;

/** What is whole, by the framework that gathers. */
export function wholeUnits(layout: Layout, stage: PipelineStage, bytes: StateBytes): WholeUnits {
  const sharded = shardedStates(layout);
  const gathers = sharded.includes('parameter');
  switch (layout.stack) {
    case 'megatron':
      return gathers ? unitsOfFsdp2(layout, stage, { ...bytes, gathered: 2, reduced: 4 }) : NONE;
    case 'fsdp2':
      return gathers ? unitsOfFsdp2(layout, stage, bytes) : unitsOfDdp(stage, bytes);
    case 'deepspeed':
      return unitsOfDeepSpeed(stage, bytes, gathers, sharded.length > 0);
    default:
      return layout.stack satisfies never;
  }
}

/**
 * [Note: FSDP2's units] TorchTitan makes every block a unit, and embedding, last norm and head together the root, which stays whole
 * from forward to the end of backward, as the last block does. A gather writes one buffer, which is copied out to parameters;
 * in forward the previous buffer is kept until the next copy (FSDPParamGroup.wait_for_unshard). Backward gathers the next block
 * while one runs, and the float32 input of a block's reduction is kept until the next block's (post_backward). The root's
 * gradients wait for the end. With pipelining, blocks stay whole, and gradients are summed whole in the reduction's type until
 * the last microbatch (stage.py: set_requires_gradient_sync(False); FSDPParam.to_accumulated_grad_if_needed).
 * Blocks of fp8 are gathered in fp8 (enable_fsdp_float8_all_gather, as its 405B configuration has it).
 * Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py; torchtitan, parallelize_llama.py,
 * December 2024 to June 2025 (later releases make the embedding, and norm with head, units of their own).
 */
function unitsOfFsdp2(layout: Layout, stage: PipelineStage, bytes: StateBytes): WholeUnits {
  const { gathered, reduced } = bytes;
  const { layerParams, layers, headParams, params } = stage;
  const root = stage.embeddingParams + headParams;
  const block = (layout.precision === 'fp8' ? 1 : gathered) * layerParams;
  const isPiped = layout.pp > 1;
  const resharded = STRATEGIES[layout.strategy].reshardAfterForward && !isPiped;
  const accumulated = isPiped && layout.numMicroBatches > 1 ? reduced * params : 0;
  return {
    parameters: gathered * root + (resharded ? 1 : layers) * block,
    gradients: gathered * (layerParams + headParams),
    accumulated,
    reducing: accumulated > 0 ? 0 : reduced * layerParams,
    outer: {
      parameters: isPiped ? layers * block : 0,
      gradients: accumulated > 0 ? 0 : gathered * root,
      reducing: reduced * Math.max(root, layerParams),
    },
    gathering: (Math.max(gathered * root, block) + block) * (1 + 1 / layout.shards),
    buckets: 0,
  };
}

/** DDP keeps reduced gradients in buckets beside the parameters' own; autocast keeps a bf16 copy of weights until backward. Source: gradient_as_bucket_view = false. */
function unitsOfDdp({ params }: PipelineStage, { gradient, gathered, parameter }: StateBytes): WholeUnits {
  return { ...NONE, parameters: gathered < parameter ? gathered * params : 0, buckets: gradient * params };
}

/** ZeRO-3 limits the number of live parameters, and every stage reduces through a bucket of fixed size. */
function unitsOfDeepSpeed(
  { layerParams, params }: PipelineStage,
  { gathered, reduced }: StateBytes,
  gathers: boolean,
  reduces: boolean,
): WholeUnits {
  const live = Math.min(params, Math.max(MAX_LIVE, layerParams + PREFETCH));
  return {
    ...NONE,
    parameters: gathers ? gathered * live : 0,
    gradients: reduces ? reduced * layerParams : 0,
    buckets: reduces ? reduced * REDUCE_BUCKET : 0,
  };
}

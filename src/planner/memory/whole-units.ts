import { STRATEGIES } from '../../config';
import type { Layout } from '../layout';
import { shardedStates } from '../stack-rules';
import type { StageSizes } from './pipeline-stage';
import { dequantizedBytes } from './quantized-weights';
import type { StateBytes } from './state-bytes';

/** The bytes of whole units in a layout that gathers nothing. */
const NONE = {
  /** Whole parameters, from a stage's forward to the beginning of its backward. */
  parameters: 0,
  /** Gradients of the unit whose backward runs, and of the units that wait to be reduced. */
  gradients: 0,
  /** Gradients summed over microbatches before they are reduced. */
  accumulated: 0,
  /** Inputs of the reduction that is in flight while the next unit's backward runs. */
  reducing: 0,
  /** `parameters`, `gradients` and `reducing` at the end of backward, when gradients outside the layers are reduced. */
  outer: { parameters: 0, gradients: 0, reducing: 0 },
  /** Results of all-gathers in flight, in the memory of the gathering stream. */
  gathering: 0,
  /** Buffers that exist at every moment of a step. */
  buckets: 0,
};

/** Bytes of whole parameters and gradients that a layout holds in addition to shards. */
export type WholeUnits = Readonly<typeof NONE>;

/**
 * DeepSpeed's defaults of reduce_bucket_size, stage3_max_live_parameters and stage3_prefetch_bucket_size, in parameters. Source:
 * DeepSpeed's runtime/zero/config.py.
 */
const REDUCE_BUCKET = 5e8;
export const MAX_LIVE = 1e9;
export const PREFETCH = 5e7;

/** Returns the whole units of a stage in the layout's framework. */
export function wholeUnits(layout: Layout, stage: StageSizes, bytes: StateBytes): WholeUnits {
  const sharded = shardedStates(layout);
  const gathers = sharded.includes('parameter');
  switch (layout.stack) {
    case 'megatron':
      return gathers ? unitsOfFsdp2(layout, stage, { ...bytes, gathered: 2, reduced: 4 }) : NONE;
    case 'fsdp2':
      if (gathers) return unitsOfFsdp2(layout, stage, bytes);
      return layout.baseWeights === null
        ? unitsOfDdp(stage, bytes)
        : { ...unitsOfDdp(stage, bytes), parameters: dequantizedBytes(layout.model) };
    case 'deepspeed':
      return unitsOfDeepSpeed(stage, bytes, gathers, sharded.length > 0);
    default:
      return layout.stack satisfies never;
  }
}

/**
 * [Note: FSDP2's units] In TorchTitan, every block is a unit. The root (embedding, last norm and head) and the last block are
 * whole from forward to the end of backward. An all-gather writes one buffer, which is copied into parameters; in forward, the
 * previous buffer is freed at the next copy (FSDPParamGroup.wait_for_unshard). Backward gathers the next block while a block
 * runs, and the float32 input of a block's reduction is freed at the next block's reduction (post_backward). The root's
 * gradients are reduced last. With pipelining, blocks are not resharded unless a config asks for it (see [Note: FSDP in pipelines]), and whole gradients are summed in the reduction's type
 * until the stage's last microbatch (stage.py: set_requires_gradient_sync(False); FSDPParam.to_accumulated_grad_if_needed). With
 * as many microbatches as ranks, an interleaved schedule finishes one virtual stage before it begins the backward of the next.
 * The input of a virtual stage's last reduction is freed only at the next step's first reduction, because a pipeline reduces
 * after backward, and by then the callback that frees such inputs has run (stage.py: run_post_backward;
 * FSDPState._root_post_backward_final_callback). Under tensor parallelism, the gradient of the token embedding is a partial sum
 * with the rows of the whole vocabulary until it is reduced (torch/distributed/tensor/_ops/_embedding_ops.py:
 * embedding_dense_backward cannot return rows sharded; FSDPParam._get_grad_inner_tensor). In the interleaved schedule with few
 * microbatches, this gradient exists only when the other virtual stages have finished.
 * Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py; torch.distributed.pipelining,
 * schedules.py; torchtitan, parallelize_llama.py, December 2024 to June 2025 (later releases make the embedding, and norm with
 * head, units of their own).
 */
function unitsOfFsdp2(layout: Layout, stage: StageSizes, bytes: StateBytes): WholeUnits {
  const { gathered, reduced } = bytes;
  const { layerParams, layers, headParams, params } = stage;
  const { model, tp, virtualStages } = layout;
  const root = stage.embeddingParams + headParams;
  const tableRows = stage.isFirst ? model.vocab * model.dim * (1 - 1 / tp) : 0;
  const block = (layout.fp8AllGather ? 1 : gathered) * layerParams;
  const isPiped = layout.pp > 1;
  // In 1F1B, a forward comes between two backwards; in other schedules, backwards leave all layers whole one after the other.
  const isFreed = isPiped ? layout.reshardsStages && layout.schedule === '1F1B' : true;
  const resharded = STRATEGIES[layout.strategy].reshardAfterForward && isFreed;
  const inTurn = virtualStages > 1 && layout.numMicroBatches <= layout.pp;
  const unreduced = inTurn ? params / virtualStages : params + tableRows;
  const accumulated = isPiped && layout.numMicroBatches > 1 ? reduced * unreduced : 0;
  return {
    parameters: gathered * root + (resharded ? 1 : layers) * block,
    gradients: gathered * layout.trainedShare * (layerParams + headParams),
    accumulated,
    reducing: accumulated > 0 ? 0 : reduced * layerParams,
    outer: {
      parameters: isPiped ? layers * block : 0,
      gradients: accumulated > 0 ? 0 : gathered * layout.trainedShare * (root + tableRows),
      reducing: reduced * Math.max(root, layerParams),
    },
    gathering: virtualStages * (Math.max(gathered * root, block) + block) * (1 + 1 / layout.shards),
    buckets: accumulated > 0 ? virtualStages * reduced * layerParams : 0,
  };
}

/** DDP has buckets in addition to gradients (gradient_as_bucket_view = false); autocast stores bf16 weights until backward. */
function unitsOfDdp({ params }: StageSizes, { gradient, gathered, parameter }: StateBytes): WholeUnits {
  return { ...NONE, parameters: gathered < parameter ? gathered * params : 0, buckets: gradient * params };
}

/** ZeRO-3 limits the number of whole parameters, and every ZeRO stage reduces through a bucket of fixed size. */
function unitsOfDeepSpeed(
  { layerParams, params }: StageSizes,
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

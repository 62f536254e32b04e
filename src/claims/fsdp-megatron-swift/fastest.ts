import { ConfigError } from '../../core';
import type { PlanObject, Prediction } from '../../planner';
import type { PlanLab } from '../lab';

/** A model, its GPUs and its batch, which is the same for every compared layout. */
export interface Case {
  readonly model: NonNullable<PlanObject['model']>;
  readonly gpus: number;
  readonly globalBatch: number;
  readonly hardware?: PlanObject['hardware'];
  readonly nicGbit?: number;
  readonly gpusPerNode?: number;
}

/** A layout that fits, and its prediction. */
export interface Fastest {
  readonly request: PlanObject;
  readonly prediction: Prediction;
}

/** Degrees of tensor and pipeline parallelism to try; data parallelism gets the rest of the GPUs. */
export interface Degrees {
  readonly tp: readonly number[];
  readonly pp: readonly number[];
}

const MICRO = [1, 2, 4];
const RECOMPUTE = [null, 'selective', 'full'] as const;
const SHARDED = ['SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;

/** Returns the fastest layout of FSDP and DDP alone, over strategies, microbatches and recompute. */
export function fastestDataParallel(
  lab: PlanLab,
  of: Case,
  strategies: readonly ((typeof SHARDED)[number] | 'NO_SHARD')[] = ['NO_SHARD', ...SHARDED],
): Fastest | undefined {
  const requests = strategies.flatMap((strategy) =>
    ways(of, 1).map(({ micro, passes, ...way }) => ({
      ...way,
      ...{ batch: micro, accumulation: passes },
      stack: 'fsdp2' as const,
      parallel: { strategy },
    })),
  );
  return fastestOf(lab, requests);
}

/** Returns the fastest layout of Megatron-LM, with its optimizer sharded over the data-parallel ranks. */
export function fastestMegatron(lab: PlanLab, of: Case, { tp, pp }: Degrees): Fastest | undefined {
  const requests = tp.flatMap((tensor) =>
    pp.flatMap((pipeline) =>
      ways(of, tensor * pipeline).map(({ micro, passes, ...way }) => ({
        ...way,
        ...(pipeline === 1 ? { batch: micro, accumulation: passes } : { batch: micro * passes }),
        stack: 'megatron' as const,
        parallel: {
          tp: tensor,
          pp: pipeline,
          ...(pipeline > 1 && { microbatches: passes }),
          sequenceParallel: tensor > 1,
          strategy: 'ZERO_1' as const,
        },
      })),
    ),
  );
  return fastestOf(lab, requests);
}

/** Returns by how many percent a layout takes longer than a base; infinite if the layout does not fit. */
export function percentSlower(layout: Fastest | undefined, base: Fastest | undefined): number {
  const [mine, its] = [secondsOf(layout), secondsOf(base)];
  return 100 * (mine / its - 1);
}

export function secondsOf(layout: Fastest | undefined): number {
  return layout?.prediction.seconds.value ?? Number.POSITIVE_INFINITY;
}

/** A case with a microbatch and a recompute; `passes` is the number of microbatches of a data-parallel rank. */
type Way = PlanObject & { readonly micro: number; readonly passes: number };

function ways(
  { model, gpus, globalBatch, hardware = 'A100-80G', nicGbit, gpusPerNode }: Case,
  modelRanks: number,
): Way[] {
  const dp = gpus / modelRanks;
  if (!Number.isInteger(dp)) return [];
  return MICRO.filter((micro) => globalBatch % (dp * micro) === 0).flatMap((micro) =>
    RECOMPUTE.map((activationCheckpointing) => ({
      ...{ model, hardware, gpus, activationCheckpointing, micro, passes: globalBatch / (dp * micro) },
      ...(nicGbit === undefined ? {} : { nicGbit }),
      ...(gpusPerNode === undefined ? {} : { gpusPerNode }),
    })),
  );
}

function fastestOf(lab: PlanLab, requests: readonly PlanObject[]): Fastest | undefined {
  let best: Fastest | undefined;
  for (const request of requests) {
    const prediction = legal(lab, request);
    if (prediction === undefined || !prediction.fits) continue;
    if (prediction.seconds.value < secondsOf(best)) best = { request, prediction };
  }
  return best;
}

/** Returns a prediction; undefined if heads, layers or ranks do not divide. */
function legal(lab: PlanLab, request: PlanObject): Prediction | undefined {
  try {
    return lab.predict(request);
  } catch (error) {
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
}

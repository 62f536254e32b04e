import { ConfigError } from '../../../core/errors';
import type { Prediction } from '../../prediction';
import type { PlanRequestInput } from '../../request';
import type { PlanLab } from '../lab';

/** What is trained where; the batch is the same for every layout that is compared. */
export interface Case {
  readonly model: NonNullable<PlanRequestInput['model']>;
  readonly seq?: number;
  readonly gpus: number;
  readonly globalBatch: number;
  readonly hardware?: PlanRequestInput['hardware'];
  readonly nicGbit?: number;
  readonly gpusPerNode?: number;
}

/** A layout that fits, and what is expected of it. */
export interface Fastest {
  readonly request: PlanRequestInput;
  readonly prediction: Prediction;
}

/** Degrees of tensor and pipeline parallelism to try, and what data parallelism is left with. */
export interface Degrees {
  readonly tp: readonly number[];
  readonly pp: readonly number[];
}

const MICRO = [1, 2, 4];
const RECOMPUTE = ['none', 'selective', 'full'] as const;
const SHARDED = ['SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;

/** FSDP and DDP alone: every strategy, micro-batches, recompute. */
export function fastestDataParallel(
  lab: PlanLab,
  of: Case,
  strategies: readonly ((typeof SHARDED)[number] | 'NO_SHARD')[] = ['NO_SHARD', ...SHARDED],
): Fastest | undefined {
  const requests = strategies.flatMap((strategy) =>
    ways(of, 1).map((way) => ({ ...way, parallel: { strategy, stack: 'fsdp2' as const } })),
  );
  return fastestOf(lab, requests);
}

/** Megatron-LM with its optimizer sharded over data parallelism. */
export function fastestMegatron(lab: PlanLab, of: Case, { tp, pp }: Degrees): Fastest | undefined {
  const requests = tp.flatMap((tensor) =>
    pp.flatMap((pipeline) =>
      ways(of, tensor * pipeline).map((way) => ({
        ...way,
        parallel: {
          tp: tensor,
          pp: pipeline,
          sequenceParallel: tensor > 1,
          strategy: 'ZERO_1' as const,
          stack: 'megatron' as const,
        },
      })),
    ),
  );
  return fastestOf(lab, requests);
}

/** Percent by which the first takes longer than the second; infinite where nothing of the first fits. */
export function percentSlower(one: Fastest | undefined, other: Fastest | undefined): number {
  const [mine, its] = [secondsOf(one), secondsOf(other)];
  return 100 * (mine / its - 1);
}

export function secondsOf(one: Fastest | undefined): number {
  return one?.prediction.seconds.value ?? Number.POSITIVE_INFINITY;
}

function ways(
  { model, seq, gpus, globalBatch, hardware = 'A100-80G', nicGbit, gpusPerNode }: Case,
  modelRanks: number,
): PlanRequestInput[] {
  const dp = gpus / modelRanks;
  if (!Number.isInteger(dp)) return [];
  return MICRO.filter((micro) => globalBatch % (dp * micro) === 0).flatMap((micro) =>
    RECOMPUTE.map((recompute) => ({
      model,
      hardware,
      gpus,
      batch: { global: globalBatch, micro },
      recompute,
      ...(seq === undefined ? {} : { seq }),
      ...(nicGbit === undefined ? {} : { nicGbit }),
      ...(gpusPerNode === undefined ? {} : { gpusPerNode }),
    })),
  );
}

function fastestOf(lab: PlanLab, requests: readonly PlanRequestInput[]): Fastest | undefined {
  let best: Fastest | undefined;
  for (const request of requests) {
    const prediction = legal(lab, request);
    if (prediction === undefined || !prediction.fits) continue;
    if (prediction.seconds.value < secondsOf(best)) best = { request, prediction };
  }
  return best;
}

/** A prediction; undefined where heads, layers and ranks do not go together. */
function legal(lab: PlanLab, request: PlanRequestInput): Prediction | undefined {
  try {
    return lab.predict(request);
  } catch (error) {
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
}

import { reduceDtypeOf } from '../config/precision-config';
import type { StrategyName } from '../config/strategies';
import { STRATEGIES } from '../config/strategies';
import { knownKeys, type TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { shapeOfConfig } from './models';
import { type PlanRequestInput, planRequestSchema, REQUEST_WORDS } from './request';

/** What a TrainConfig does not say: where it runs. Other keys of a plan request replace what the config says. */
export type Place = Partial<PlanRequestInput>;

/** Whether an input is a TrainConfig and no plan request: by keys that only the one has, or by the form of shared ones. */
export function isTrainConfig(input: unknown): boolean {
  if (typeof input !== 'object' || input === null) return false;
  const entries = Object.entries(input);
  const requestKeys = [...Object.keys(planRequestSchema.shape), ...Object.keys(REQUEST_WORDS)];
  const trainKeys = knownKeys('').filter((key) => !requestKeys.includes(key));
  return entries.some(
    ([key, value]) =>
      trainKeys.includes(key) ||
      (key === 'batch' && typeof value === 'number') ||
      (key === 'schedule' && typeof value === 'object') ||
      (key === 'model' && (value === 'tiny' || value === 'bench')),
  );
}

/** The plan request of a training as it would run on GPUs. Throws: CONFIG for what no plan can be made of. */
export function requestOfConfig(config: TrainConfig, input: object, place: Place = {}): PlanRequestInput {
  const { parallel, batch, accumulation, offload } = config;
  const gpus = place.gpus ?? gpusOfMesh(config);
  const { tp = 1, pp = 1, cp = 1 } = place.parallel ?? {};
  const onHost = offload.parameters && STRATEGIES[parallel.strategy].shardedAtRest.includes('parameter');
  const dp = gpus / (tp * pp * cp);
  const { kind, momentum, blockSize } = config.optimizer;
  const { mesh } = parallel;
  if (mesh !== null && !Number.isInteger(dp / mesh.dpShard)) {
    throw new ConfigError(
      `parallel.mesh: dpShard ${mesh.dpShard} does not divide the ${dp} data-parallel ranks of ${gpus} GPUs; change one of them`,
    );
  }
  return {
    model: shapeOfConfig(config),
    gpus,
    parallel: {
      strategy: strategyOf(config),
      stack: parallel.strategy.startsWith('ZERO') ? 'deepspeed' : 'fsdp2',
      ...(mesh === null || !STRATEGIES[parallel.strategy].isHybrid ? {} : { dpShard: mesh.dpShard }),
    },
    batch: { micro: batch, global: batch * accumulation * dp },
    precision: PRECISIONS[config.mixedPrecision?.paramDtype ?? 'float32'],
    ...(writtenAttention(input) === 'eager' ? { attention: 'unfused' } : {}),
    ...recomputeOf(config),
    optimizerStates: { kind, momentum, blockSize },
    ...(asksReduceDtype(config) ? { reduceDtype: PRECISIONS[reduceDtypeOf(config)] } : {}),
    // Where shards lie on the host, the optimizer steps there.
    offload: { optimizer: offload.optimizer || onHost, parameters: onHost },
  };
}

/** A mesh says how many ranks there are; else a node's. */
function gpusOfMesh({ parallel: { mesh } }: TrainConfig): number {
  return mesh === null ? 8 : mesh.dpReplicate * mesh.dpShard;
}

/** reshardAfterForward names the strategy of a pair that differs in nothing else. */
function strategyOf({ parallel: { strategy, reshardAfterForward } }: TrainConfig): StrategyName {
  if (reshardAfterForward === null) return strategy;
  const keeps = reshardAfterForward === false;
  if (strategy === 'FULL_SHARD' || strategy === 'SHARD_GRAD_OP')
    return keeps ? 'SHARD_GRAD_OP' : 'FULL_SHARD';
  if (STRATEGIES[strategy].isHybrid) return keeps ? '_HYBRID_SHARD_ZERO2' : 'HYBRID_SHARD';
  return strategy;
}

/** The kernel that a config's model was given; undefined where it was left to the default. */
export function writtenAttention(input: object): unknown {
  const model = 'model' in input ? input.model : undefined;
  return typeof model === 'object' && model !== null && 'attention' in model ? model.attention : undefined;
}

function asksReduceDtype({ mixedPrecision, parallel }: TrainConfig): boolean {
  return mixedPrecision !== null || parallel.communicationDataType !== null;
}

const PRECISIONS = { float32: 'fp32', bfloat16: 'bf16', float16: 'fp16' } as const;

function recomputeOf({
  activationCheckpointing: chosen,
}: TrainConfig): Pick<PlanRequestInput, 'recompute' | 'recomputeEveryNth'> {
  if (chosen === null) return { recompute: 'none' };
  if (typeof chosen === 'string') return { recompute: chosen };
  if ('everyNth' in chosen) return { recompute: 'full', recomputeEveryNth: chosen.everyNth };
  return { recompute: 'selective' };
}

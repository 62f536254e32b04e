import { modelShape, positionsOf } from '../config/model-config';
import { knownKeys, parseTrainConfig, type TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import type { Warn } from '../core/warn';
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

/** The plan request of a training as it would run on GPUs. Throws: CONFIG for what the planner has no word for. */
export function requestOfConfig(input: unknown, place: Place = {}, warn: Warn = () => {}): PlanRequestInput {
  const config = parseTrainConfig(input);
  const { parallel, batch, accumulation, offload } = config;
  const gpus = place.gpus ?? 8;
  if (offload.activations)
    warn('offload.activations has no effect on the plan: it counts activations on the GPU');
  return {
    model: modelOf(config),
    gpus,
    parallel: {
      strategy: parallel.strategy,
      stack: parallel.strategy.startsWith('ZERO') ? 'deepspeed' : 'fsdp2',
      ...(parallel.mesh === null ? {} : { dpShard: parallel.mesh.dpShard }),
    },
    batch: { micro: batch, global: batch * accumulation * gpus },
    precision: precisionOf(config),
    recompute: recomputeOf(config, warn),
    offload: { optimizer: offload.optimizer, parameters: offload.parameters },
    ...place,
  };
}

/** What both the config's models and the planner's have a word for. */
const SHARED_KEYS = [
  'kind',
  'layers',
  'dim',
  'heads',
  'kvHeads',
  'ffn',
  'vocab',
  'tied',
  'qkvBias',
  'experts',
  'textLen',
  'textDim',
  'freqDim',
  'inChannels',
  'outChannels',
  'relativeBuckets',
] as const;

function modelOf(config: TrainConfig): PlanRequestInput['model'] {
  const shape = modelShape(config);
  if (shape.kind === 'moe') {
    throw new ConfigError(
      "model.kind: 'moe' cannot be planned: a plan has no experts within layers; plan the gpt of the same sizes, or { params }",
    );
  }
  const name = typeof config.model === 'string' ? config.model : undefined;
  const written: Readonly<Record<string, unknown>> = { ...shape };
  const shared = SHARED_KEYS.filter((key) => written[key] !== undefined).map((key) => [key, written[key]]);
  // Both schemas give these keys the same type; a video has as many positions as patches.
  return { name, ...Object.fromEntries(shared), seq: positionsOf(shape) } as PlanRequestInput['model'];
}

function precisionOf({ mixedPrecision }: TrainConfig): 'fp32' | 'bf16' | 'fp16' {
  const dtype = mixedPrecision?.paramDtype ?? 'float32';
  return ({ float32: 'fp32', bfloat16: 'bf16', float16: 'fp16' } as const)[dtype];
}

function recomputeOf(
  { activationCheckpointing: chosen }: TrainConfig,
  warn: Warn,
): 'none' | 'selective' | 'full' {
  if (chosen === null) return 'none';
  if (typeof chosen === 'string') return chosen;
  if ('everyNth' in chosen) {
    if (chosen.everyNth === 1) return 'full';
    warn(
      `activationCheckpointing.everyNth ${chosen.everyNth} is planned as 'none': the plan knows all blocks or none`,
    );
    return 'none';
  }
  warn(`activationCheckpointing ${JSON.stringify(chosen)} is planned as 'selective'`);
  return 'selective';
}

import {
  ENDING,
  isOwnModel,
  isVideoModel,
  kindOf,
  modelShape,
  parseTrainConfig,
  publishedModelName,
  SCHEDULE_DEFAULTS,
  settingWarnings,
  type TrainConfig,
  type TrainConfigInput,
} from '../config';

/** A config that can be trained on this machine, and a sentence about each part that was made smaller. */
export interface ToyConfig {
  readonly config: TrainConfigInput;
  readonly notes: readonly string[];
}

interface ToyOptions {
  /** Number of steps to train; by default the config's steps, up to a limit. */
  readonly steps: number | undefined;
  readonly ranks: number;
  /** Whether fewer ranks train than the config is for. */
  readonly isScaled: boolean;
}

/** The most steps that are trained unless the user asks for more. */
const MOST_STEPS = 10;

/**
 * Replaces a published model by a model of the same kind that a small machine can train, and that the same degrees divide. Only the first steps
 * of a long training remain.
 */
export function toyConfig(input: TrainConfigInput, options: ToyOptions): ToyConfig {
  const parsed = parseTrainConfig(input);
  const notes: string[] = [];
  const config = withSteps(
    withMesh(withModel(input, parsed, notes), parsed, options),
    parsed,
    options,
    notes,
  );
  return { config, notes };
}

function withModel(config: TrainConfigInput, parsed: TrainConfig, notes: string[]): TrainConfigInput {
  const { model } = parsed;
  const name = publishedModelName(model);
  const shape = modelShape({ model });
  if (name === null || isOwnModel(shape)) return config;
  const { tp, cp, pp, virtualStages } = parsed.parallel;
  const heads = Math.max(4, tp * cp);
  const sizes = { layers: Math.max(2, pp * (virtualStages ?? 2)), heads, dim: 16 * heads };
  notes.push(
    `${name} is too large for this machine: a ${shape.kind} with ${sizes.layers} layers of width ${sizes.dim} trains in its place, with the same settings`,
  );
  const warnings = settingWarnings({ model }, parsed, 1);
  notes.push(...warnings.filter(({ path }) => path === 'model').map(({ says }) => `${name} ${says}`));
  const small = { ...sizes, vocab: 256 * tp, seq: 64 };
  const toy = {
    ...config,
    model: kindOf(shape)?.smallLike?.(small, shape) ?? ({ kind: 'gpt', ...small } as const),
  };
  if (!isVideoModel(shape)) return toy;
  const encoder =
    config.textEncoder == null ? {} : { textEncoder: { ...config.textEncoder, model: 't5-tiny' as const } };
  return { ...toy, ...encoder, data: 'moving-shapes' as const };
}

/** Divides the ranks into two replicas, if the config's mesh is for more ranks. */
function withMesh(
  config: TrainConfigInput,
  { parallel: { mesh, tp, pp } }: TrainConfig,
  { ranks, isScaled }: ToyOptions,
): TrainConfigInput {
  const shared = ranks / (tp * pp);
  if (mesh === null || !isScaled || shared % 2 !== 0) return config;
  return { ...config, parallel: { ...config.parallel, mesh: { dpReplicate: 2, dpShard: shared / 2 } } };
}

/** Trains only the first steps of a long training, with the schedule of the whole training. */
function withSteps(
  config: TrainConfigInput,
  { steps: all }: TrainConfig,
  { steps = Math.min(all, MOST_STEPS) }: ToyOptions,
  notes: string[],
): TrainConfigInput {
  if (steps >= all) return { ...config, steps };
  notes.push(`the run trains ${steps} of the ${all} steps; --steps chooses another number`);
  const { schedule } = config;
  const isEnding = schedule != null && ENDING.includes(schedule.kind ?? SCHEDULE_DEFAULTS.kind);
  return {
    ...config,
    steps,
    ...(isEnding && { schedule: { ...schedule, maxSteps: schedule.maxSteps ?? all } }),
  };
}

import { modelShape } from '../config/model-config';
import { STRATEGIES } from '../config/strategies';
import { parseTrainConfig, type TrainConfig } from '../config/train-config';
import { type Place, writtenAttention } from './request-of-config';

/** A setting that a plan does not take as it stands, and the sentence that says what it takes instead. */
export interface Assumed {
  readonly setting: string;
  readonly says: string;
}

/** What a plan makes of a config beside reading it. */
export interface ConfigReading {
  /** Settings that would change the training on GPUs and are planned otherwise. */
  readonly assumed: readonly Assumed[];
  /** Settings that change values and neither time nor memory of a step. */
  readonly withoutEffect: readonly string[];
}

/** Every setting that is not at its default and that no plan reads. */
export function readingOf(config: TrainConfig, input: object, place: Place = {}): ConfigReading {
  const assumed: Assumed[] = [];
  const withoutEffect: string[] = valuesOfModel(input);
  for (const { path, value } of changedSettings(config)) {
    const meaning = path in READINGS ? READINGS[path]?.(config, place) : 'is not read';
    if (meaning === VALUES) withoutEffect.push(path);
    else if (meaning != null) assumed.push({ setting: path, says: `${path} ${shown(value)} ${meaning}` });
  }
  return { assumed: [...assumed, ...attentionByDefault(config, input, place)], withoutEffect };
}

/** Says null where the plan reads the setting, VALUES where it changes values alone, else what is planned in its place. */
type Reading = (config: TrainConfig, place: Place) => string | null;

const VALUES = 'values';
const read: Reading = () => null;
const values: Reading = () => VALUES;
const as =
  (meaning: string): Reading =>
  () =>
    meaning;

/** A setting that is missing here is named as not read. */
const READINGS: Readonly<Record<string, Reading>> = {
  model: read,
  batch: read,
  accumulation: read,
  data: values,
  seed: values,
  steps: values,
  schedule: values,
  frozen: as('is not read: all parameters are planned as trained'),
  clipNorm: ({ clipNorm }) =>
    clipNorm === null ? 'is not read: the norm of all gradients is planned as computed' : VALUES,
  gradScaler: as('is not read: the step is planned without a scaler'),
  activationCheckpointing: ({ activationCheckpointing: chosen }, { recompute }) =>
    recompute === undefined && typeof chosen === 'object' && chosen !== null && !('everyNth' in chosen)
      ? "is planned as 'selective'"
      : null,
  'offload.optimizer': read,
  'offload.parameters': ({ parallel }) =>
    gathers(parallel)
      ? null
      : `has no effect under ${parallel.strategy}: parameters are whole and in use all the time`,
  'offload.activations': as('is not read: activations are planned on the GPU'),
  'mixedPrecision.paramDtype': read,
  'mixedPrecision.reduceDtype': read,
  'parallel.strategy': read,
  'parallel.mesh': ({ parallel }, { gpus }) => {
    const { mesh, strategy } = parallel;
    if (mesh === null || gpus === mesh.dpReplicate * mesh.dpShard) return meshEffect(strategy);
    return (
      meshEffect(strategy) ??
      (gpus === undefined
        ? null
        : `is planned as ${gpus / mesh.dpShard} copies over ${mesh.dpShard}, on ${gpus} GPUs`)
    );
  },
  'parallel.reshardAfterForward': ({ parallel }) => {
    const { reshardAfterForward: asked, strategy } = parallel;
    if (!gathers(parallel))
      return `has no effect under ${strategy}: parameters are whole, and nothing is gathered`;
    if (typeof asked === 'number') return 'is planned as true: freed after forward, gathered again from all';
    return asked === true ? 'is planned with the root whole until its backward, as by default' : null;
  },
  'parallel.wrap': as("is planned as 'blocks'"),
  'parallel.unitStrategies': as('is not read: every unit is planned under parallel.strategy'),
  'parallel.ignoredModules': as('is not read: all parameters are planned as part of units'),
  'parallel.syncModuleStates': values,
  'parallel.forwardPrefetch': as('is not read: units are planned as gathered ahead'),
  'parallel.backwardPrefetch': as("is planned as 'BACKWARD_PRE'"),
  'parallel.limitAllGathers': as('is not read: at most two gathers are planned at once'),
  'parallel.bucketBytes': as('is not read: a tenth of the gradients is planned to be reduced after backward'),
  'parallel.noSync': as(
    'is not read: gradients that are sharded are planned as reduced in every micro-batch, others once',
  ),
  'parallel.communicationDataType': read,
  'parallel.sparseGradients': as('is not read: all gradients are planned as dense'),
  'optimizer.kind': read,
  'optimizer.lr': values,
  'optimizer.betas': values,
  'optimizer.eps': values,
  'optimizer.weightDecay': values,
  'optimizer.momentum': ({ optimizer }) =>
    optimizer.kind === 'sgd' ? null : `has no effect with ${optimizer.kind}; it is sgd's`,
  'optimizer.nesterov': values,
  'optimizer.blockSize': ({ optimizer }) =>
    optimizer.kind === 'adamW8bit' ? null : `has no effect with ${optimizer.kind}; it is adamW8bit's`,
  'optimizer.fused': as('is not read: the step is planned as its stack has it by default'),
  'optimizer.delayedUpdate': as('is not read: each step is planned to wait for its own gradients'),
};

/** Settings of a model that change what it computes, and not how much. */
const MODEL_VALUES = ['ropeTheta', 'normEps', 'boundary', 'relativeDistance'];

function valuesOfModel(input: object): string[] {
  const model = 'model' in input ? input.model : undefined;
  if (typeof model !== 'object' || model === null) return [];
  return MODEL_VALUES.filter((key) => key in model).map((key) => `model.${key}`);
}

/** Training here computes the matrix of attention's weights unless told otherwise; GPUs do not. */
function attentionByDefault(config: TrainConfig, input: object, { attention }: Place): Assumed[] {
  const shape = modelShape(config);
  if (attention !== undefined || writtenAttention(input) !== undefined || shape.kind === 't5-encoder')
    return [];
  const says =
    "model.attention is 'eager' by default and planned as 'flash', as GPUs run it; give it to plan the other";
  return [{ setting: 'model.attention', says }];
}

function gathers({ strategy }: TrainConfig['parallel']): boolean {
  return STRATEGIES[strategy].shardedAtRest.includes('parameter');
}

function meshEffect(strategy: TrainConfig['parallel']['strategy']): string | null {
  return STRATEGIES[strategy].isHybrid
    ? null
    : `has no effect under ${strategy}, which keeps no copies of shards`;
}

interface Changed {
  readonly path: string;
  readonly value: unknown;
}

/** Sections whose settings count one by one. */
const SECTIONS = ['parallel', 'optimizer', 'offload', 'mixedPrecision'];

/** Every setting whose value is not the default's. */
function changedSettings(config: TrainConfig): Changed[] {
  const defaults: Readonly<Record<string, unknown>> = parseTrainConfig({ mixedPrecision: {} });
  return Object.entries(config).flatMap(([key, value]) =>
    SECTIONS.includes(key)
      ? changedIn(value, defaults[key], `${key}.`)
      : changedIn({ [key]: value }, defaults, ''),
  );
}

function changedIn(section: unknown, defaults: unknown, prefix: string): Changed[] {
  // Both were parsed by one schema: objects, or null for a section that is absent.
  const usual = defaults as Readonly<Record<string, unknown>>;
  return Object.entries(section ?? {})
    .filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(usual[key]))
    .map(([key, value]) => ({ path: `${prefix}${key}`, value }));
}

function shown(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

import {
  isPretrained,
  isPythonModel,
  kernelOf,
  type ModelSetting,
  modelNamed,
  modelSchema,
  modelShape,
  parsedBy,
  publishedModelName,
  type ReadModelFiles,
  type TrainConfigInput,
} from '../config';
import { ConfigError } from '../core';
import type { Planable } from './layout-of-config';
import { type ModelShapeInput, shapeSchema } from './model-shape';
import { type ModelAt, modelOf, shapeOfConfig } from './models';
import type { Place } from './place';

/** A model that only a plan knows: there are formulas for its sizes, but its blocks are not built here. */
export interface PlannedModel extends Pick<Planable, 'shape' | 'kernel'> {
  /** Whether it is a published model, which has the settings of published trainings. */
  readonly isPublished: boolean;
}

/** A model that only a plan knows: by its name on a hub, the path of its config.json, its sizes, or { params: 7.5e9 }. */
export type PlannedModelInput =
  | (ModelShapeInput & { readonly like?: string; readonly attention?: 'eager' | 'flash' })
  | string;

/** A TrainConfig whose model may also be one that only a plan knows: a model of the hub's catalogue, or { params: 7.5e9 }. */
export type PlannedConfig = Omit<TrainConfigInput, 'model'> & {
  readonly model?: TrainConfigInput['model'] | PlannedModelInput;
};

/** A config, with the keys of its place beside its own. */
export type PlanObject = PlannedConfig & Place;

/** How a model is read, and the number of stages into which it is cut. */
interface ModelReading {
  readonly readModelFiles: ReadModelFiles;
  readonly modelAt: ModelAt;
  readonly pp?: unknown;
}

/**
 * Returns a model that only a plan knows, or can cut into `pp` stages; undefined: a config's schema accepts or refuses the value.
 * Throws: CONFIG for an unknown name, and with every key that is wrong.
 */
export function plannedModel(
  model: unknown,
  { readModelFiles, modelAt, pp = 1 }: ModelReading,
): PlannedModel | undefined {
  if (model === undefined || model === null) return undefined;
  const built = modelSchema.safeParse(readModelFiles(model));
  if (built.success) return pp === 1 ? undefined : cutModel(built.data, model);
  if (typeof model === 'string')
    return { shape: modelOf(model, modelAt), isPublished: true, kernel: 'flash' };
  if (typeof model !== 'object' || isPretrained(model) || isPythonModel(model)) return undefined;
  const { like, attention, ...sizes }: Readonly<Record<string, unknown>> = { ...model };
  if (sizes.kind === 'moe' || sizes.kind === 'own') return undefined;
  const base = like === undefined ? undefined : likeShape(like, modelAt);
  const isPublished =
    typeof like === 'string' && (modelNamed(like) === null || publishedModelName(like) !== null);
  const written = Object.entries(parsedBy(shapeSchema, sizes, ['model']));
  const ownSizes = Object.fromEntries(written.filter(([, value]) => value !== undefined));
  // A config's schema asks for the sizes.
  if (base === undefined && !('params' in ownSizes || ('layers' in ownSizes && 'dim' in ownSizes)))
    return undefined;
  const isFlash =
    attention === 'flash' || (isPublished && attention !== 'eager') || sizes.kind === 't5-encoder';
  return { shape: { ...base, ...ownSizes }, isPublished, kernel: kernelOf(isFlash ? 'flash' : 'eager') };
}

/** Returns a model, given by its name or by its sizes, whose samples have this number of tokens. */
export function withSequences(model: unknown, seq: unknown): NonNullable<PlannedConfig['model']> {
  return { ...(typeof model === 'string' ? { like: model } : Object(model)), seq };
}

/** Returns a model that programs on GPUs cut into stages, although pipelines here do not run it; undefined for other kinds. */
function cutModel(model: ModelSetting, written: unknown): PlannedModel | undefined {
  const { kind } = modelShape({ model });
  if (kind !== 'dit' && kind !== 't5-encoder') return undefined;
  return { ...builtModel({ model }), isPublished: publishedModelName(written) !== null };
}

/** Returns the shape of a model that is built here, and its kernel of attention. Throws: CONFIG for a kind that cannot be planned. */
export function builtModel(config: { readonly model: ModelSetting }): Pick<Planable, 'shape' | 'kernel'> {
  const model = modelShape(config);
  const isEager =
    model.kind !== 't5-encoder' && 'attention' in model ? model.attention !== 'flash' : model.kind === 'gpt';
  return { shape: shapeOfConfig(config), kernel: kernelOf(isEager ? 'eager' : 'flash') };
}

function likeShape(like: unknown, modelAt: ModelAt): ModelShapeInput {
  if (typeof like !== 'string') throw new ConfigError("model.like: give a model's name, such as 'llama3-8b'");
  return modelOf(like, modelAt);
}

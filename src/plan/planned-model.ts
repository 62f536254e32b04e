import { issuesMessage, toIssues } from '../config/config-issue';
import { modelNamed } from '../config/model-names';
import { isPretrained } from '../config/pretrained';
import { isPythonModel } from '../config/python-model';
import { keysOf } from '../config/setting-table';
import { type ModelSetting, modelSchema, modelShape, publishedModel } from '../config/settings/model';
import type { TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { type ModelShapeInput, shapeSchema } from './model-shape';
import { modelOf, shapeOfConfig } from './models';
import type { Place } from './place';

/** A model that only a plan knows: there are formulas for its sizes, but its blocks are not built here. */
export interface PlannedModel {
  readonly shape: ModelShapeInput;
  /** Whether it is a published model, which has the settings of published trainings. */
  readonly isPublished: boolean;
  readonly attention: 'eager' | 'flash';
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

/**
 * Returns a model that only a plan knows, or can cut into `pp` stages; undefined: a config's schema accepts or refuses the value.
 * Throws: CONFIG for an unknown name, and with every key that is wrong.
 */
export function plannedModel(model: unknown, pp: unknown = 1): PlannedModel | undefined {
  if (pp !== 1 && isUncut(model)) return cutModel(model);
  if (typeof model === 'string') {
    if (modelNamed(model) !== null) return undefined;
    return {
      shape: modelOf(model),
      isPublished: true,
      attention: 'flash',
    };
  }
  if (typeof model !== 'object' || model === null || isPretrained(model) || isPythonModel(model))
    return undefined;
  const kind = 'kind' in model ? model.kind : undefined;
  if (kind === 'moe' || kind === 'own' || modelSchema.safeParse(model).success) return undefined;
  const { like, attention, ...sizes } = model as { readonly like?: unknown; readonly attention?: unknown };
  const base = like === undefined ? undefined : likeShape(like);
  const isPublished =
    typeof like === 'string' && (modelNamed(like) === null || publishedModel(like) !== null);
  const parsed = shapeSchema.safeParse(sizes);
  if (!parsed.success) {
    const issues = toIssues(parsed.error.issues, sizes, keysOf(shapeSchema), {}).map((issue) => ({
      ...issue,
      path: ['model', ...issue.path],
    }));
    throw new ConfigError(issuesMessage(issues), { issues });
  }
  if (base === undefined && parsed.data.params === undefined && isConfigs(parsed.data)) return undefined;
  const given = Object.fromEntries(Object.entries(parsed.data).filter(([, value]) => value !== undefined));
  return {
    shape: { ...base, ...given },
    isPublished,
    attention:
      attention === 'flash' || (isPublished && attention !== 'eager') || kind === 't5-encoder'
        ? 'flash'
        : 'eager',
  };
}

/** Returns a model, given by its name or by its sizes, whose samples have this number of tokens. */
export function withSequences(model: unknown, seq: unknown): NonNullable<PlannedConfig['model']> {
  return { ...(typeof model === 'string' ? { like: model } : Object(model)), seq };
}

/** Whether a model is of a kind whose stages are not built here. */
function isUncut(model: unknown): model is ModelSetting {
  const parsed = modelSchema.safeParse(model);
  return parsed.success && ['dit', 't5-encoder'].includes(modelShape({ model: parsed.data }).kind);
}

/** Returns a model that is cut into stages: pipelines here do not run it, but those of programs on GPUs can. */
function cutModel(model: ModelSetting): PlannedModel {
  const parsed = modelSchema.parse(model);
  const shape = modelShape({ model: parsed });
  return {
    shape: shapeOfConfig({ model: parsed }),
    isPublished: publishedModel(model) !== null,
    attention: shape.kind === 'dit' ? shape.attention : 'flash',
  };
}

function likeShape(like: unknown): ModelShapeInput {
  if (typeof like !== 'string') throw new ConfigError("model.like: give a model's name, such as 'llama3-8b'");
  return modelOf(like);
}

/** Whether a model without sizes is one whose sizes a config's schema asks for. */
function isConfigs({ layers, dim }: ModelShapeInput): boolean {
  return layers === undefined || dim === undefined;
}

import {
  CATALOGUE,
  isBuilt,
  kindOf,
  knownModel,
  type ModelConfig,
  type ModelName,
  modelShape,
  nearest,
  PLANNED_NAMES,
  PUBLISHED_NAMES,
  positionsOf,
  pythonRefused,
  readHub,
} from '../config';
import { ConfigError, shortened } from '../core';
import { type ModelShapeInput, shapeSchema } from './model-shape';

/** Returns the shape of a model in a file or a folder; undefined: the path has none. */
export type ModelAt = (path: string) => ModelShapeInput | undefined;

/**
 * Returns the shape of a published model, or of a path where `modelAt` finds a model; without it, no files are read.
 * Throws: CONFIG with the nearest name.
 */
export function modelOf(name: string, modelAt: ModelAt = () => undefined): ModelShapeInput {
  const known = knownModel(name);
  if (known !== null)
    return isBuilt(known) ? shapeOfConfig({ model: known }) : shapeOfHub(CATALOGUE[known] ?? {}, known);
  const published = modelAt(name);
  if (published !== undefined) return published;
  const close = nearest(name.replace(/^.*\//, ''), [...PUBLISHED_NAMES, ...PLANNED_NAMES]);
  throw new ConfigError(
    `model: '${shortened(name)}' is not known${close === undefined ? '.' : `; did you mean '${close}'?`} ` +
      `Known: ${PUBLISHED_NAMES.join(', ')}, and ${PLANNED_NAMES.length} models by their names on a hub, such as Qwen3-32B (shardlab models lists them); give the path of a config.json of transformers or diffusers, or describe any ` +
      'other model by { kind, layers, dim, heads, vocab, seq } or { params }',
  );
}

/** Whether a value is a model's config, which names a family, and not a TrainConfig. */
export function isHubConfig(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || 'model' in value) return false;
  return 'model_type' in value || '_class_name' in value;
}

/**
 * Returns the shape of a config. Throws: CONFIG for a family that is not known, and for a config without the sizes that its family
 * needs.
 */
export function shapeOfHub(config: object, name: string): ModelShapeInput {
  const read = readHub(textOf(config));
  if ('wrong' in read) throw new ConfigError(`${name}: ${read.wrong}`);
  const sizes = shapeKeys(read.sizes);
  return textOf(config) === config
    ? { name, ...sizes }
    : { name: `${name}, text model only`, isTextOnly: true, ...sizes };
}

/** Says what a plan leaves out of a model that also reads images or sounds; null if it leaves out nothing. */
export function leftOutOf({ isTextOnly = false }: ModelShapeInput): string | null {
  return isTextOnly
    ? 'model: only the language model of this config is planned; its encoder of images or sounds is left out'
    : null;
}

/** Returns the config of the language model, which is nested if the model also reads images or sounds. */
function textOf(config: object): object {
  const text = 'text_config' in config ? config.text_config : undefined;
  return typeof text === 'object' && text !== null ? text : config;
}

/** Returns the sizes that a shape has too: settings and sizes with the same name have the same meaning. */
function shapeKeys(sizes: object): ModelShapeInput {
  const known = Object.entries(sizes).filter(
    ([key, value]) => key in shapeSchema.shape && value !== undefined,
  );
  return Object.fromEntries(known) as ModelShapeInput; // readers and schemas check the sizes
}

/** Returns the shape of a config's model. Throws: CONFIG for a kind that cannot be planned. */
export function shapeOfConfig(config: { readonly model: ModelConfig | ModelName }): ModelShapeInput {
  const shape = modelShape(config);
  const { notPlanned } = kindOf(shape) ?? {};
  if (notPlanned !== undefined)
    throw new ConfigError(`model.kind: '${shape.kind}' cannot be planned: ${notPlanned}`);
  if (shape.kind === 'own') throw ownModelRefused();
  if (shape.kind === 'python') throw pythonRefused(shape);
  return {
    ...shapeKeys(shape),
    name: typeof config.model === 'string' ? config.model : 'like' in shape ? shape.like : undefined,
    seq: positionsOf(shape),
    ...('attnDim' in shape && shape.attnDim !== undefined && { headDim: shape.attnDim / shape.heads }),
  };
}

/** Returns the error for a model of the user's own in a function that needs formulas. */
export function ownModelRefused(caller = 'model'): ConfigError {
  return new ConfigError(
    `${caller}: there are formulas only for models of known kinds. For a model of your own, call sl.plan(config, { on: 'A100-80G', ` +
      'gpus: 8 }), which runs the model on shapes. To choose settings, compare such plans with sl.compare or .scaling of a plan',
  );
}

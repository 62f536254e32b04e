import { pythonRefused } from '../config/functions-missing';
import { CATALOGUE_NAMES } from '../config/hub-names';
import { type ModelName, modelNamed } from '../config/model-names';
import { PUBLISHED_MODELS } from '../config/named-models';
import { nearest } from '../config/nearest';
import { type ModelConfig, modelShape, positionsOf } from '../config/settings/model';
import { ConfigError } from '../core/errors';
import { shortened } from '../core/shortened';
import { catalogueModel, hubModelAt } from './hub/read-hub';
import { type ModelShapeInput, shapeSchema } from './model-shape';

/** Returns the shape of a published model, or of a config.json or its folder. Throws: CONFIG with the nearest name. */
export function modelOf(name: string): ModelShapeInput {
  const known = modelNamed(name);
  if (known !== null) return shapeOfConfig({ model: known });
  const published = catalogueModel(name) ?? hubModelAt(name);
  if (published !== undefined) return published;
  const close = nearest(name.replace(/^.*\//, ''), [...NAMES, ...CATALOGUE_NAMES]);
  throw new ConfigError(
    `model: '${shortened(name)}' is not known${close === undefined ? '.' : `; did you mean '${close}'?`} ` +
      `Known: ${NAMES.join(', ')}, and ${CATALOGUE_NAMES.length} models by their names on a hub, such as Qwen3-32B (npx shardlab models lists them); give the path of a config.json of transformers or diffusers, or describe any ` +
      'other model by { kind, layers, dim, heads, vocab, seq } or { params }',
  );
}

/** Returns the shape of a config's model. Throws: CONFIG for a kind that cannot be planned. */
export function shapeOfConfig(config: { readonly model: ModelConfig | ModelName }): ModelShapeInput {
  const shape = modelShape(config);
  if (shape.kind === 'moe') {
    throw new ConfigError(
      "model.kind: 'moe' cannot be planned: plans have no formula for this library's mixture of experts; plan a gpt of the same sizes, or give { params }",
    );
  }
  if (shape.kind === 'own') throw ownModelRefused();
  if (shape.kind === 'python') throw pythonRefused(shape);
  const read = Object.entries(shape).filter(([key]) => key in shapeSchema.shape);
  return {
    ...(Object.fromEntries(read) as ModelShapeInput), // settings with the same name have the same meaning
    name: typeof config.model === 'string' ? config.model : 'like' in shape ? shape.like : undefined,
    seq: positionsOf(shape),
    ...(shape.kind === 't5-encoder' ? { headDim: (shape.attnDim ?? shape.dim) / shape.heads } : {}),
  };
}

/** Returns the error for a model of the user's own in a function that needs formulas. */
export function ownModelRefused(what = 'model'): ConfigError {
  return new ConfigError(
    `${what}: there are formulas only for models of known kinds. For a model of your own, call sl.plan(config, { on: 'A100-80G', ` +
      'gpus: 8 }), which runs the model on shapes. To choose settings, compare such plans with sl.compare or .scaling of a plan',
  );
}

/** The names of the published models. */
const NAMES = Object.keys(PUBLISHED_MODELS) as (keyof typeof PUBLISHED_MODELS)[];

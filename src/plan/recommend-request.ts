import { z } from 'zod';
import { size } from '../config/settings/model';
import { strategySchema } from '../config/strategies';
import { parseTrainConfig, type TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { type Layout, RECOMPUTE, STACKS } from './layout';
import { layoutWithDefaults } from './layout-of';
import { askedByConfig, isTrainConfig } from './layout-of-config';
import { ourKey, parseWith } from './parse-request';
import { inputOf, isObject, planInputNamed, withPlace } from './plan-input';
import { hardwareSchema, planRequestSchema } from './request';

const positive = z.number().positive();
const sizes = z.array(size).min(1).optional();

const searchSchema = z.strictObject({
  stacks: z.array(z.enum(STACKS)).min(1).optional(),
  strategies: z.array(strategySchema).min(1).optional(),
  tp: sizes,
  pp: sizes,
  cp: sizes,
  micro: sizes,
  virtualStages: sizes,
  recompute: z.array(z.enum(RECOMPUTE)).min(1).optional(),
  offload: z.array(z.boolean()).min(1).optional(),
});

/** The schema of a request to `recommend`. */
export const recommendSchema = planRequestSchema
  .pick({
    model: true,
    seq: true,
    gpusPerNode: true,
    nicGbit: true,
    precision: true,
    attention: true,
    compile: true,
    dropout: true,
    optimizerStates: true,
  })
  .extend({
    /** One kind of GPU, or several to choose from. */
    hardware: z.union([hardwareSchema, z.array(hardwareSchema).min(1)]).optional(),
    /** Number of GPUs; a search by cost also tries fewer GPUs. */
    gpus: size.default(8),
    /** The search tries `gpus`, half of them, a quarter and so on, down to this number. Default: `gpus`; by cost, one node. */
    fewestGpus: size.optional(),
    /** Sequences of one iteration. Default: about 4 million tokens. */
    batch: z.strictObject({ global: size.optional() }).prefault({}),
    by: z.enum(['time', 'memory', 'cost']).default('time'),
    /** A time limit: the training on this number of tokens takes at most this number of hours. */
    within: z.strictObject({ tokens: positive, hours: positive }).optional(),
    /** Restricts the values that are tried. */
    search: searchSchema.prefault({}),
  });

/** The input of `recommend`: a model, a kind of GPU and their number, the global batch, and restrictions of the search. */
export type RecommendInput = z.input<typeof recommendSchema>;

export type RecommendRequest = z.output<typeof recommendSchema>;

/** Options of a search: `on` is one kind of GPU or several; other keys replace those of the input. */
export type RecommendPlace = Partial<RecommendInput> & { readonly on?: RecommendInput['hardware'] };

/** Returns a plan request without the keys whose values a search finds, such as `parallel` and the microbatch. */
export function searchedKeys(request: object): object {
  const isFound = (key: string): boolean =>
    ourKey(key) in planRequestSchema.shape && !(ourKey(key) in recommendSchema.shape);
  const asked = Object.fromEntries(Object.entries(request).filter(([key]) => !isFound(key)));
  if (!isObject(asked.batch)) return asked;
  const batch = Object.entries(asked.batch).filter(([key]) => ourKey(key) !== 'micro');
  return { ...asked, batch: Object.fromEntries(batch) };
}

/**
 * Returns the request of a config, of a request, or of a name (see `planInputNamed`). From a config, a search takes the model,
 * the types, the optimizer and, if given, the batch. The search finds all other settings, even if a file has values for them.
 * Throws: CONFIG as `plan` does.
 */
export function recommendAsked(
  input: RecommendInput | TrainConfigInput | string,
  { on, ...place }: RecommendPlace = {},
): object {
  const asked: object = typeof input === 'string' ? inputNamed(input) : inputOf(input);
  const where = withPlace(place, { hardware: on });
  if (!isTrainConfig(asked)) return withPlace(asked, where);
  const given = place.gpus === undefined ? {} : { gpus: place.gpus };
  const ofConfig = askedByConfig(parseTrainConfig(asked), asked, given);
  const { model, precision, attention, optimizerStates, global, gpus } = ofConfig;
  const hasBatch = 'batch' in asked || 'accumulation' in asked;
  const read = { model, precision, attention, optimizerStates, gpus };
  return withPlace({ ...read, ...(hasBatch ? { batch: { global } } : {}) }, where);
}

function inputNamed(name: string): object {
  const input = planInputNamed(name);
  return isTrainConfig(input) ? input : searchedKeys(input);
}

/**
 * Checks a request. Throws: CONFIG with every key that is wrong, and the nearest known key; and for a range of GPUs that begins with
 * the larger number.
 */
export function parseRecommend(input: unknown): RecommendRequest {
  const request = parseWith(recommendSchema, input);
  const { gpus, fewestGpus = 1 } = request;
  if (fewestGpus <= gpus) return request;
  throw new ConfigError(
    `fewestGpus ${fewestGpus} is more than gpus ${gpus}; give the smaller number first: ${gpus}..${fewestGpus}`,
  );
}

/** Tokens of a usual iteration. Source: Llama 3's first batch size, 4M (Dubey et al. 2024, 3.4.1). */
const USUAL_TOKENS = 2 ** 22;

/** Returns a base layout for each kind and number of GPUs; candidates replace the keys that are searched. */
export function searchBases(request: RecommendRequest): readonly Layout[] {
  const {
    hardware,
    batch,
    gpus,
    by: _by,
    within: _within,
    search: _search,
    fewestGpus: _fewest,
    ...asked
  } = request;
  const kinds = Array.isArray(hardware) ? hardware : [hardware];
  return kinds.flatMap((kind) => {
    const whole = layoutWithDefaults({ ...asked, hardware: kind, stack: 'megatron', strategy: 'NO_SHARD' });
    const globalBatch = batch.global ?? usualBatch(whole.model.seq, gpus);
    return countsOf(request, whole.hardware.gpusPerNode).map((count) => ({
      ...whole,
      gpus: count,
      globalBatch,
    }));
  });
}

/** Returns the numbers of GPUs to try: `gpus` and, by cost or with `fewestGpus`, also half of them, a quarter and so on. */
function countsOf({ by, gpus, fewestGpus }: RecommendRequest, gpusPerNode: number): readonly number[] {
  const counts = [gpus];
  const fewest = fewestGpus ?? (by === 'cost' ? gpusPerNode : gpus);
  for (let half = gpus / 2; half >= fewest && Number.isInteger(half); half /= 2) {
    counts.push(half);
  }
  return counts;
}

function usualBatch(seq: number, gpus: number): number {
  return gpus * 2 ** Math.max(0, Math.round(Math.log2(USUAL_TOKENS / seq / gpus)));
}

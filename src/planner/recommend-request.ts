import { z } from 'zod';
import { parsedBy, parseTrainConfig, refuseNull, STACKS, size, strategySchema } from '../config';
import { ConfigError } from '../core';
import type { Reading } from '../programs';
import { type Layout, RECOMPUTE } from './layout';
import { layoutOfConfig, type Planable } from './layout-of-config';
import { hardwareSchema, isPlaceKey, type Place } from './place';
import { inputAt, readPlan } from './plan-input';
import type { PlannedConfig } from './planned-model';
import { partsOf, withPlace } from './read-settings';

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

/** The schema of the keys that only `recommend` has. */
export const recommendSchema = z.strictObject({
  /** One kind of GPU, or several to choose from. */
  hardware: z.union([hardwareSchema, z.array(hardwareSchema).min(1)]).optional(),
  /** The search tries `gpus`, half of them, a quarter and so on, down to this number. Default: `gpus`; by cost, one node. */
  fewestGpus: size.optional(),
  /** Sequences of one iteration. Default: those of the config's `batch` and `accumulation`, else about 4 million tokens. */
  globalBatch: size.optional(),
  by: z.enum(['time', 'memory', 'cost']).default('time'),
  /** A time limit: the training on this number of tokens takes at most this number of hours. */
  within: z.strictObject({ tokens: positive, hours: positive }).optional(),
  /** Restricts the values that are tried. */
  search: searchSchema.prefault({}),
});

type Kinds = z.input<typeof recommendSchema>['hardware'];

/**
 * The input of `recommend`: a config, of which the search keeps model, types, optimizer and batch, its GPUs, and restrictions of the
 * search. `on` and `hardware` mean the same.
 */
export type RecommendInput = PlannedConfig &
  Omit<Place, 'on' | 'hardware'> &
  z.input<typeof recommendSchema> & { readonly on?: Kinds };

/** A checked input: what all layouts of the search have in common, and how they are searched. */
export interface RecommendRequest extends Omit<z.output<typeof recommendSchema>, 'hardware'> {
  readonly planable: Planable;
  /** Whether the config says in which type gradients are reduced; otherwise each framework reduces as it does by default. */
  readonly hasTypes: boolean;
  readonly kinds: readonly (z.output<typeof hardwareSchema> | undefined)[];
  readonly gpus: number;
  /** What plans leave out of the model. */
  readonly leftOut: readonly string[];
  /** The config as the user wrote it. */
  readonly config: PlannedConfig;
}

/**
 * Returns the checked request of a config, of a reading, or of a name (see `planInputNamed`); keys of `options` replace those of
 * the input. The search finds degrees, strategy, microbatch, recompute and offload, even if the input has values for them.
 * Throws: CONFIG as `plan` does, and for a range of GPUs that begins with the larger number.
 */
export function recommendRequest(
  input: RecommendInput | Reading | string,
  options: RecommendInput = {},
): RecommendRequest {
  const { on, ...settings } = withPlace(inputAt(input, {}), options) as RecommendInput; // the schemas check it
  refuseNull('recommend', { on, ...settings }, (name) => name === 'on' || isPlaceKey(name) || isOwnKey(name));
  const entries = Object.entries(on === undefined ? settings : { ...settings, hardware: on });
  const isOwn = ([key]: readonly [string, unknown]): boolean => isOwnKey(key);
  const wanted = parsedBy(recommendSchema, Object.fromEntries(entries.filter(isOwn)));
  const { written, place } = partsOf(Object.fromEntries(entries.filter((entry) => !isOwn(entry))));
  const planable = readPlan({ ...written, ...place });
  const whole = layoutOfConfig(planable);
  const hasBatch = 'batch' in written || 'accumulation' in written;
  const { hardware, fewestGpus = 1, globalBatch = hasBatch ? whole.globalBatch : undefined } = wanted;
  const { gpus } = whole;
  if (fewestGpus > gpus) {
    throw new ConfigError(
      `fewestGpus ${fewestGpus} is more than gpus ${gpus}; give the smaller number first: ${gpus}..${fewestGpus}`,
    );
  }
  return {
    ...wanted,
    ...(globalBatch === undefined ? {} : { globalBatch }),
    gpus,
    planable: withoutSearched(planable, whole),
    hasTypes: 'mixedPrecision' in written,
    kinds: Array.isArray(hardware) ? hardware : [hardware],
    leftOut: planable.assumed.filter(({ setting }) => setting === 'model').map(({ says }) => says),
    config: written,
  };
}

function isOwnKey(key: string): boolean {
  return Object.hasOwn(recommendSchema.shape, key);
}

/** Returns what the search keeps, with the usual values of everything else. */
function withoutSearched({ settings, shape, kernel }: Planable, { trainedShare }: Layout): Planable {
  const { mixedPrecision, optimizer, gpusPerNode, nicGbit, fp8, attention, compile } = settings;
  const { compileLoss, fusedNorms, dropout, baseWeights, parallel } = settings;
  const { communicationDataType } = parallel;
  const kept = { mixedPrecision, optimizer, gpusPerNode, nicGbit, fp8, attention, compile };
  return {
    settings: {
      ...parseTrainConfig({ parallel: { strategy: 'NO_SHARD', communicationDataType } }),
      ...{ ...kept, compileLoss, fusedNorms, dropout, baseWeights, trainedShare, stack: 'megatron' },
    },
    shape,
    kernel,
  };
}

/** Tokens of a usual iteration. Source: Llama 3's first batch size, 4M (Dubey et al. 2024, 3.4.1). */
const USUAL_TOKENS = 2 ** 22;

/** Returns a base layout for each kind and number of GPUs; candidates replace the keys that are searched. */
export function searchBases(request: RecommendRequest): readonly Layout[] {
  const { planable, hasTypes, kinds, gpus } = request;
  return kinds.flatMap((hardware) => {
    const settings = { ...planable.settings, gpus, ...(hardware !== undefined && { hardware }) };
    const whole = layoutOfConfig({ ...planable, settings });
    const globalBatch = request.globalBatch ?? usualBatch(whole.model.seq, gpus);
    return countsOf(request, whole.hardware.gpusPerNode).map((count) => ({
      ...{ ...whole, gpus: count, globalBatch },
      ...(!hasTypes && { reduceDtype: null }),
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

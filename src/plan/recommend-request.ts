import { z } from 'zod';
import { issuesMessage, toIssues } from '../config/config-issue';
import { size } from '../config/families/kinds';
import { keysOf } from '../config/setting-table';
import { strategySchema } from '../config/strategies';
import { ConfigError } from '../core/errors';
import type { Reading } from '../dialects/rows/reading';
import { type Layout, RECOMPUTE, STACKS } from './layout';
import { type Asked, layoutWithDefaults } from './layout-of';
import { hardwareSchema, type Place } from './place';
import { inputOf, partsOf, readPlan, withPlace } from './plan-input';
import type { PlannedConfig } from './planned-model';

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

type Wanted = z.output<typeof recommendSchema>;
type Kinds = z.input<typeof recommendSchema>['hardware'];

/**
 * The input of `recommend`: a config, of which the search keeps model, types, optimizer and batch, its GPUs, and restrictions of the
 * search. `on` and `hardware` mean the same.
 */
export type RecommendInput = PlannedConfig &
  Omit<Place, 'on' | 'hardware'> &
  z.input<typeof recommendSchema> & { readonly on?: Kinds };

/** A checked input: what all layouts of the search have in common, and how they are searched. */
export interface RecommendRequest extends Omit<Wanted, 'hardware'> {
  readonly asked: Asked;
  readonly kinds: readonly (z.output<typeof hardwareSchema> | undefined)[];
  readonly gpus: number;
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
  const { on, ...given } = withPlace(inputOf(input), options) as RecommendInput; // the schemas check it
  const own = Object.keys(recommendSchema.shape);
  const entries = Object.entries(on === undefined ? given : { ...given, hardware: on });
  const wanted = parseWanted(Object.fromEntries(entries.filter(([key]) => own.includes(key))));
  const rest = Object.fromEntries(entries.filter(([key]) => !own.includes(key)));
  const { asked } = readPlan(rest);
  const { written } = partsOf(rest);
  const { gpus = 8, global } = asked;
  const hasBatch = 'batch' in written || 'accumulation' in written;
  const { hardware, fewestGpus = 1, globalBatch = hasBatch ? global : undefined } = wanted;
  if (fewestGpus > gpus) {
    throw new ConfigError(
      `fewestGpus ${fewestGpus} is more than gpus ${gpus}; give the smaller number first: ${gpus}..${fewestGpus}`,
    );
  }
  return {
    ...wanted,
    ...(globalBatch === undefined ? {} : { globalBatch }),
    gpus,
    // Without types in the config, each framework reduces gradients as it does by default.
    asked: { ...keptOf(asked), ...('mixedPrecision' in written ? {} : { reduceDtype: undefined }) },
    kinds: Array.isArray(hardware) ? hardware : [hardware],
    config: written,
  };
}

function parseWanted(written: object): Wanted {
  const parsed = recommendSchema.safeParse(written);
  if (parsed.success) return parsed.data;
  const issues = toIssues(parsed.error.issues, written, keysOf(recommendSchema), {});
  throw new ConfigError(issuesMessage(issues), { issues });
}

/** Returns the settings that the search keeps. */
function keptOf(asked: Asked): Asked {
  const { model, precision, reduceDtype, attention, compile, compileLoss, dropout, optimizer } = asked;
  const { trainedShare, baseWeights, gpusPerNode, nicGbit } = asked;
  return {
    ...{ model, precision, reduceDtype, attention, compile, compileLoss, dropout, optimizer },
    ...{ trainedShare, baseWeights, gpusPerNode, nicGbit },
  };
}

/** Tokens of a usual iteration. Source: Llama 3's first batch size, 4M (Dubey et al. 2024, 3.4.1). */
const USUAL_TOKENS = 2 ** 22;

/** Returns a base layout for each kind and number of GPUs; candidates replace the keys that are searched. */
export function searchBases(request: RecommendRequest): readonly Layout[] {
  const { asked, kinds, gpus } = request;
  return kinds.flatMap((hardware) => {
    const whole = layoutWithDefaults({ ...asked, hardware, stack: 'megatron', strategy: 'NO_SHARD' });
    const globalBatch = request.globalBatch ?? usualBatch(whole.model.seq, gpus);
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

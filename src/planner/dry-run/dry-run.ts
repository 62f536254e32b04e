import { z } from 'zod';
import {
  anyValue,
  configNamed,
  configWarnings,
  countSchema,
  flagSchema,
  functionSchema,
  modelShape,
  parseOptions,
  parseTrainConfig,
  positiveSchema,
  type ShapeOf,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config';
import { ConfigError, type Warn } from '../../core';
import { DryRun } from './dry-run-result';
import { costsOfRank, type TimeOptions } from './rank-costs';
import { type DryRunCosts, type MetaOwn, type RankStepOptions, runRank } from './rank-run';
import { type RankOptions, type RankThreadResult, runRanks } from './rank-threads';

/** Options of a dry run. */
export interface DryRunOptions extends RankStepOptions, Pick<TimeOptions, 'hardware'> {
  /**
   * The rank that runs in place of all ranks. Default: rank 0; under a pipeline, the first rank of each stage. If shards differ
   * in size, the first rank holds the largest.
   */
  readonly rank?: number;
  /** 'all' runs every rank of a world of at most 64 ranks. Default: 'one'; with parallel.pp, one rank per stage. */
  readonly ranks?: 'one' | 'all';
}

const MOST_RANKS = 64;
/** A rank's groups list their ranks, so a mistyped world would fill the memory. */
const MOST_WORLD = 65_536;
/** The number of ranks is often given here by mistake. */
const RANKS = "'one' or 'all' (the number of ranks is another setting: gpus of the place)";

/** The shape of the options of a dry run whose place has the ranks and the GPUs. */
export const DRY_RUN_OPTIONS = {
  ranks: z.enum(['one', 'all']).describe(RANKS),
  rank: z.int().min(0),
  steps: countSchema,
  memoryLimit: positiveSchema.describe('bytes above 0, such as 24e9'),
  blas: flagSchema,
  curve: flagSchema,
  events: flagSchema,
  repeats: flagSchema,
  costs: anyValue<DryRunCosts>(),
  warn: functionSchema<Warn>(),
} satisfies ShapeOf<Omit<DryRunOptions, 'world' | 'hardware'>>;

const OPTIONS = {
  ...DRY_RUN_OPTIONS,
  world: countSchema.max(MOST_WORLD).describe(`a whole number, at most ${MOST_WORLD} ranks`).nonoptional(),
  hardware: anyValue<NonNullable<DryRunOptions['hardware']>>(),
} satisfies ShapeOf<DryRunOptions>;
/** Passes after the first ones are alike, and a mistyped number would not end. */
const MOST_PASSES = 20_000;

/**
 * Trains for some steps with shapes in place of values, in simulated time. `input` is a config, or the name of a preset, a
 * model or a file. The code of the model, strategy, autograd and optimizer is the same as in a run; only the engine (meta) and
 * the other ranks are not real. Bytes are exactly those of a rank's wasm engine. See [Note: the meta engine], [Note: values in
 * a dry run].
 * `progress` gets the number of steps that are done, and the number of all steps of the ranks that run.
 * Throws: CONFIG as training does, and for a world, rank or number of steps out of range; ENGINE for a model whose memory
 * depends on values; OUT_OF_MEMORY beyond `memoryLimit`.
 */
export function dryRun(
  input: TrainConfigInput | string,
  callOptions: DryRunOptions,
  own?: MetaOwn,
  progress?: (done: number, total: number) => void,
): DryRun {
  const options: DryRunOptions = parseOptions('dryRun(config, { … })', callOptions, OPTIONS);
  const config = configNamed(input);
  const full = parseTrainConfig(config);
  const { world, steps = 2, warn } = options;
  if (steps * full.accumulation > MOST_PASSES)
    throw new ConfigError(
      `a dry run: ${steps} steps of ${full.accumulation} passes are too many; give steps and accumulation whose product is at most ${MOST_PASSES}`,
    );
  for (const message of configWarnings(config, full, world)) warn?.(message);
  const costsOf = costsOfRank(options);
  const ranks = ranksOf(options, full);
  let done = 0;
  const stepped = (): void => progress?.(++done, ranks.length * steps);
  const runs = runRanks({
    ranks,
    isLarge: isLarge(full),
    options: own === undefined && options.costs === undefined ? plainOptions(options, full) : undefined,
    run: (rank) => runRank({ ...options, config: full, rank, own, costs: costsOf(), stepped }),
    arrived: ({ run, warnings }: RankThreadResult) => {
      for (const text of warnings) warn?.(text);
      run?.records.forEach(stepped);
    },
  });
  return new DryRun(full, world, runs);
}

/** The stages of a model with at least this many layers take long, so threads start at once. */
const MANY_LAYERS = 64;

function isLarge(config: TrainConfig): boolean {
  const shape = modelShape(config);
  return 'layers' in shape && shape.layers >= MANY_LAYERS && config.parallel.pp > 1;
}

/** Returns the options that each rank needs; undefined if they cannot be sent to another thread. */
function plainOptions(
  { warn: _warn, costs: _costs, rank: _rank, ranks: _ranks, ...options }: DryRunOptions,
  config: TrainConfig,
): RankOptions | undefined {
  try {
    return structuredClone({ ...options, config });
  } catch {
    return undefined; // the config has functions
  }
}

function ranksOf(
  { world, rank, ranks = 'one' }: DryRunOptions,
  { parallel: { pp } }: TrainConfig,
): readonly number[] {
  if (ranks === 'one') {
    // Ranks of a stage are consecutive. A world that pp does not divide is refused when the first rank runs.
    const firsts = Array.from({ length: pp }, (_, stage) => Math.floor((stage * world) / pp));
    return rank === undefined ? firsts : [rank];
  }
  if (rank !== undefined) {
    throw new ConfigError(
      `a dry run: rank ${rank} and ranks 'all' contradict each other; leave one of them out`,
    );
  }
  if (world > MOST_RANKS) {
    throw new ConfigError(
      `a dry run: ranks 'all' runs up to ${MOST_RANKS} ranks one after another, and the world is ${world}; omit ranks, so ` +
        'that only rank 0 runs, or choose one rank per call: { rank: 3 }',
    );
  }
  return Array.from({ length: world }, (_, rank) => rank);
}

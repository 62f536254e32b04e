import { configWarnings } from '../../config/config-warnings';
import { configNamed } from '../../config/named-config';
import { parseTrainConfig, type TrainConfigInput } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import { type HardwareOverrides, hardwareOf } from '../hardware';
import { DryRun } from './dry-run-result';
import { gpuCosts } from './gpu-costs';
import { type DryRunCosts, runRank, type StepOptions } from './rank-run';

/** How a config is run without values. `costs` default to those of `hardware`. */
export interface DryRunOptions extends StepOptions {
  /** The rank that stands for all. Default 0, which holds most where shares are uneven. */
  readonly rank?: number;
  /** 'all' runs every rank, one after another, up to 64. Default 'one'. */
  readonly ranks?: 'one' | 'all';
  /**
   * A kind of GPU by name ('A100-80G'), or one that is like it but for some figures: times are those of this library's kernels
   * and schedule on such GPUs. See [Note: this library's schedule on a GPU].
   */
  readonly hardware?: string | (HardwareOverrides & { readonly like: string });
}

const MOST_RANKS = 64;

/**
 * Runs a config's training, or that of a preset, a model or a file by its name, for some steps with shapes in place of values: the very model, strategy, autograd and optimizer
 * code, on the meta engine, among imagined ranks, in simulated time. The bytes that it says are held are those that a rank's
 * wasm engine holds, to the byte. See [Note: the meta engine], [Note: values in a dry run].
 * Throws: CONFIG as training does, and for a world, rank or number of steps out of range; ENGINE for a model whose memory
 * depends on values; OUT_OF_MEMORY beyond `memoryLimit`.
 */
export function dryRun(input: TrainConfigInput | string, options: DryRunOptions): DryRun {
  if (typeof options !== 'object' || options === null)
    throw new ConfigError('dryRun needs how many ranks are imagined: dryRun(config, { world: 8 })');
  const config = configNamed(input);
  const full = parseTrainConfig(config);
  const { world, steps = 2, warn } = options;
  if (!Number.isInteger(steps) || steps < 1)
    throw new ConfigError(`dryRun: steps is ${steps}; give a whole number of at least 1`);
  for (const message of configWarnings(config, full, world)) warn?.(message);
  const costsOf = costsOfRank(options);
  const runs = ranksOf(options).map((rank) => runRank({ ...options, config: full, rank, costs: costsOf() }));
  return new DryRun(full, world, runs);
}

function costsOfRank({ hardware, costs }: DryRunOptions): () => DryRunCosts {
  if (hardware === undefined) return () => costs ?? {};
  if (costs !== undefined)
    throw new ConfigError('dryRun: hardware and costs both say what things take; leave one of them out');
  const { like, ...figures } = typeof hardware === 'string' ? { like: hardware } : hardware;
  const gpus = hardwareOf(like, figures);
  return () => gpuCosts(gpus);
}

function ranksOf({ world, rank, ranks = 'one' }: DryRunOptions): readonly number[] {
  if (ranks === 'one') return [rank ?? 0];
  if (ranks !== 'all')
    throw new ConfigError(`dryRun: ranks is ${ranks}; it is 'one' or 'all', and how many there are is world`);
  if (rank !== undefined) {
    throw new ConfigError(
      `dryRun: rank ${rank} and ranks 'all' contradict each other; leave one of them out`,
    );
  }
  if (world > MOST_RANKS) {
    throw new ConfigError(
      `dryRun: ranks 'all' runs up to ${MOST_RANKS} ranks one after another, and the world is ${world}; leave it out, so ` +
        'that rank 0 stands for all, or choose others one at a time by rank',
    );
  }
  return Array.from({ length: world }, (_, place) => place);
}

import { parseTrainConfig, type TrainConfig } from '../../config/train-config';
import type { Bytes } from '../../core/units';
import { dryRun } from '../../plan/dry-run/dry-run';
import { ComposedPeaks } from '../../plan/pieces/composed-peaks';

/** What composing the peaks of a grid of training configs took. */
export interface ComposedWork {
  readonly candidates: number;
  /** Processor time, nothing known before. */
  readonly cpu_s: number;
  readonly cpu_s_per_10k: number;
  /** Short dry runs that all peaks were composed of. */
  readonly dry_runs: number;
  /** Of the candidates drawn for a dry run of their own, those whose peak is the same to the byte. */
  readonly equal: number;
  readonly compared: number;
}

interface Candidate {
  readonly config: TrainConfig;
  readonly world: number;
}

/** Composes the device's peaks of 10,752 configs, and dry-runs every `1 / compared`-th of them whole. */
export function composeGrid(compared: number): ComposedWork {
  const candidates = grid();
  const peaks = new ComposedPeaks();
  const before = process.cpuUsage();
  const found: Bytes[] = candidates.map(({ config, world }) => peaks.peak(config, world).bytes);
  const { user, system } = process.cpuUsage(before);
  const seconds = (user + system) / 1e6;
  const stride = Math.floor(candidates.length / compared);
  const drawn = candidates.flatMap((candidate, at) => (at % stride === 0 ? [{ ...candidate, at }] : []));
  const equal = drawn.filter(
    ({ config, world, at }) => dryRun(config, { world, curve: false }).peak.heldBytes === found[at],
  );
  return {
    candidates: candidates.length,
    cpu_s: Number(seconds.toFixed(3)),
    cpu_s_per_10k: Number(((seconds * 10_000) / candidates.length).toFixed(3)),
    dry_runs: peaks.numRuns,
    equal: equal.length,
    compared: drawn.length,
  };
}

const STRATEGIES = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;

/** A GPT of dim 4096 at 6 strategies x 2 recomputes x 8 depths x 16 batches x 7 worlds. */
function grid(): Candidate[] {
  const shape = { kind: 'gpt', dim: 4096, heads: 32, vocab: 51_200, seq: 2048, attention: 'flash' } as const;
  return STRATEGIES.flatMap((strategy) =>
    [null, 'full' as const].flatMap((activationCheckpointing) => {
      const base = parseTrainConfig({
        model: { ...shape, layers: 32 },
        parallel: { strategy, mesh: strategy === 'HYBRID_SHARD' ? { dpReplicate: 2, dpShard: 4 } : null },
        activationCheckpointing,
      });
      return [8, 12, 16, 24, 32, 48, 64, 80].flatMap((layers) =>
        range(1, 16).flatMap((batch) => range(2, 8).map((power) => resized(base, layers, batch, 2 ** power))),
      );
    }),
  );
}

function resized(base: TrainConfig, layers: number, batch: number, world: number): Candidate {
  const { mesh } = base.parallel;
  const parallel = {
    ...base.parallel,
    mesh: mesh === null ? null : { ...mesh, dpShard: world / mesh.dpReplicate },
  };
  // The base's model is spelled out above.
  const model = { ...(base.model as Exclude<TrainConfig['model'], string>), layers };
  return { config: { ...base, model, batch, parallel }, world };
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

import type { StrategyName } from '../../../config/strategies';
import { parseTrainConfig } from '../../../config/train-config';
import type { MemoryCause } from '../../../core/events';
import type { Bytes } from '../../../core/units';
import { totalBytes } from '../../../ledger/memory';
import { noBytes } from '../../../ledger/record';
import { forecastRun } from '../../dry-run/forecast';
import { type Claim, claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { pointsOff, type SettledFinding } from '../finding';
import { bytesOf, modelStates } from '../model-states';

const GPUS = 8;

/** What sharding saves: one fraction for parameters, gradients and optimizer states, but three documented numbers. */
export const GUIDE_SHARDING: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.shard.params'),
    expected: { verdict: 'confirmed', value: -87.5 },
    check: () => ({
      ...sharded(['param.full', 'param.shard']),
      verdict: 'confirmed',
      by: '',
      why: 'Between steps each of 8 GPUs stores 1/8, so it saves 87.5%, which is more than 75%. While a unit computes, its parameters are whole.',
    }),
  },
  {
    claim: claimOf('guide.shard.grads'),
    expected: { verdict: 'off', value: -87.5 },
    check: () => ({
      ...sharded(['grad.full', 'grad.shard'], -90),
      why: 'The saving is 7/8, as for parameters and optimizer states; 90% needs 10 GPUs.',
    }),
  },
  {
    claim: claimOf('guide.shard.optimizer'),
    expected: { verdict: 'off', value: -87.5 },
    check: () => ({
      ...sharded(['optimizer'], -80),
      why: 'The saving is 7/8, as for parameters and gradients; 80% needs 5 GPUs.',
    }),
  },
  {
    claim: claimOf('guide.tune.full_shard'),
    expected: { verdict: 'confirmed' },
    check() {
      const held = STRATEGIES.map((strategy) => ({ strategy, ...heldUnder(strategy) }));
      const full = heldUnder('FULL_SHARD');
      const isLeast = held.every(({ rest, peaks }) => full.rest <= rest && full.peaks <= peaks);
      return {
        verdict: isLeast ? 'confirmed' : 'off',
        unit: null,
        by: isLeast ? '' : 'another strategy holds less',
        why:
          'Of all strategies it holds the fewest parameters, gradients and optimizer states, at rest and at their peaks; ' +
          'SHARD_GRAD_OP holds as few at rest. Activations are the same under all strategies.',
        evidence: {
          kind: 'run',
          source:
            'const job = await sl.launch({ ranks: 4 }), runs: Record<string, sl.Run> = {};\n' +
            "for (const strategy of ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const)\n" +
            "  runs[strategy] = await job.train({ model: 'tiny', parallel: { strategy } }), await runs[strategy].step(2);\n" +
            'sl.compare(runs)',
        },
      };
    },
  },
];

const STRATEGIES: readonly StrategyName[] = [
  'NO_SHARD',
  'ZERO_1',
  'ZERO_2',
  'SHARD_GRAD_OP',
  'HYBRID_SHARD',
  '_HYBRID_SHARD_ZERO2',
];

const LARGEST = ['param.full', 'param.shard', 'grad.full', 'grad.shard'] as const;

/** Returns the bytes of states on one of 8 ranks at rest, and the sum of the peaks of parameters and gradients. */
function heldUnder(strategy: StrategyName): { readonly rest: Bytes; readonly peaks: Bytes } {
  const mesh = strategy.includes('HYBRID') ? { dpReplicate: 2, dpShard: GPUS / 2 } : null;
  const run = forecastRun(parseTrainConfig({ model: 'tiny', parallel: { strategy, mesh } }), GPUS);
  const { states = noBytes(), peaks = noBytes() } = run ?? {};
  const largest = LARGEST.reduce((sum, cause) => sum + peaks[cause], 0);
  return { rest: totalBytes(states), peaks: largest };
}

/** Returns by how many percent a GPU's bytes with these causes change from DDP to FULL_SHARD. */
function sharded(
  causes: readonly MemoryCause[],
  documented: Claim['documented'] & number = -87.5,
): Omit<SettledFinding, 'why'> {
  const whole = bytesOf(modelStates(1e9, 'NO_SHARD', GPUS), causes);
  const change = 100 * (bytesOf(modelStates(1e9, 'FULL_SHARD', GPUS), causes) / whole - 1);
  return {
    verdict: 'off',
    predicted: change,
    unit: '%',
    by: pointsOff(-documented, -change),
    evidence: { kind: 'formula', source: '100 * (1 / 8 - 1)' },
  };
}

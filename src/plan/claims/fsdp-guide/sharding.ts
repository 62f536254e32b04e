import type { StrategyName } from '../../../config/strategies';
import { parseTrainConfig } from '../../../config/train-config';
import type { MemoryCause } from '../../../core/events';
import type { Bytes } from '../../../core/units';
import { totalBytes } from '../../../ledger/memory';
import { noBytes } from '../../../ledger/record';
import { forecastRun } from '../../dry-run/forecast';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { type Finding, holdsOr, isNear, onlyIf } from '../finding';
import { bytesOf, modelStates } from '../model-states';

const GPUS = 8;

/** What sharding saves: one fraction for parameters, gradients and optimizer states, but three documented numbers. */
export const GUIDE_SHARDING: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.shard.params'),
    expected: { verdict: 'holds', value: -87.5 },
    check: () =>
      sharded(
        ['param.full', 'param.shard'],
        { saving: 75, relation: 'at least' },
        'Between steps each of 8 GPUs stores 1/8, so it saves 87.5%; 4 GPUs save 75%. While a unit computes, its parameters are whole.',
      ),
  },
  {
    claim: claimOf('guide.shard.grads'),
    expected: { verdict: 'holds only if', value: -87.5 },
    check: () =>
      sharded(
        ['grad.full', 'grad.shard'],
        { saving: 90, relation: 'equal' },
        'The table states no number of GPUs. The saving is 1 - 1/N, the same for parameters, gradients and optimizer states, so no N makes all three numbers of the table right.',
      ),
  },
  {
    claim: claimOf('guide.shard.optimizer'),
    expected: { verdict: 'holds only if', value: -87.5 },
    check: () =>
      sharded(
        ['optimizer'],
        { saving: 80, relation: 'equal' },
        'The table states no number of GPUs. The saving is 1 - 1/N, the same as for gradients, for which the table states 90%.',
      ),
  },
  {
    claim: claimOf('guide.tune.full_shard'),
    expected: { verdict: 'holds' },
    check() {
      const held = STRATEGIES.map((strategy) => ({ strategy, ...heldUnder(strategy) }));
      const full = heldUnder('FULL_SHARD');
      const isLeast = held.every(({ rest, peaks }) => full.rest <= rest && full.peaks <= peaks);
      return {
        verdict: holdsOr(isLeast, 'off'),
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

/** Returns a verdict on the saving of a GPU's bytes with these causes, from DDP to FULL_SHARD; N is varied. */
function sharded(
  causes: readonly MemoryCause[],
  documented: { readonly saving: number; readonly relation: 'at least' | 'equal' },
  why: string,
): Finding {
  const saved = (world: number): number => {
    const bytes = (strategy: StrategyName): number => bytesOf(modelStates(1e9, strategy, world), causes);
    return 100 * (1 - bytes('FULL_SHARD') / bytes('NO_SHARD'));
  };
  const isRight = (world: number): boolean =>
    documented.relation === 'equal'
      ? isNear(documented.saving, saved(world), 0.001)
      : saved(world) >= documented.saving;
  const worlds = Array.from({ length: 64 }, (_, i) => i + 1).filter(isRight);
  return {
    verdict: onlyIf(worlds.length > 0, isRight(GPUS)),
    condition: `N is ${worlds[0]} GPUs`,
    otherwise: `the guide's ${GPUS} GPUs save ${saved(GPUS)}%`,
    predicted: -saved(GPUS),
    unit: '%',
    by: '',
    why,
    evidence: { kind: 'formula', source: '100 * (1 / 8 - 1)' },
  };
}

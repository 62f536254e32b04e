import { findFragment } from '../../../config/lookup';
import { parseTrainConfig } from '../../../config/train-config';
import { forecastRun } from '../../dry-run/forecast';
import { claimOf } from '../claim';
import { type ClaimEntry, type Experiment, fact } from '../entry';
import { holdsOr } from '../finding';
import { volumeAgainstDdp } from '../model-states';

const MOE = { kind: 'moe', layers: 2, dim: 64, heads: 4, vocab: 512, seq: 32, experts: 4 } as const;

/** A mixture of experts, once with its layers as units and once with its experts as units. */
export const expertUnits: Experiment = {
  name: 'Units of a mixture of experts, 2 ranks',
  async run(lab) {
    const place = { ranks: 2, steps: 3 };
    const [layers, experts] = [
      await lab.train({ model: MOE, parallel: { wrap: 'blocks' } }, place),
      await lab.train({ model: MOE, parallel: { wrap: 'moe' } }, place),
    ];
    const gathers = ({ collectives }: typeof layers): number =>
      collectives.reduce((sum, { op, count }) => (op === 'allGather' ? sum + count : sum), 0);
    return {
      largestDifference: Math.max(
        ...layers.losses.map((loss, step) => Math.abs(loss - (experts.losses[step] ?? Number.NaN))),
      ),
      gathersByLayer: gathers(layers),
      gathersByExpert: gathers(experts),
      wholeByLayer: layers.peakByCause['param.full'],
      wholeByExpert: experts.peakByCause['param.full'],
    };
  },
};

/** The guide's advice about wrapping, code and settings. */
export const GUIDE_ADVICE: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.fix.moe_unit'),
    expected: { verdict: 'holds', value: 0, within: 1e-5 },
    experiment: expertUnits,
    check(_, facts) {
      const difference = fact(facts, 'largestDifference');
      return {
        verdict: holdsOr(difference < 1e-5, 'off'),
        measured: difference,
        unit: 'nats between the losses',
        by: '',
        why:
          `It works, and no rank skips a gather because none of its tokens went to an expert: ${fact(facts, 'gathersByLayer')} all-gathers ` +
          `per step; units of single experts need ${fact(facts, 'gathersByExpert')}. But all experts of a layer are whole at once, which ` +
          `takes ${times(fact(facts, 'wholeByLayer') / fact(facts, 'wholeByExpert'))} as much memory in this run.`,
        evidence: {
          kind: 'run',
          source: `const job = await sl.launch({ ranks: 2 }), model = { kind: 'moe', layers: 2, dim: 64, heads: 4, vocab: 512, seq: 32, experts: 4 } as const;
const runs = { layers: await job.train({ model }), experts: await job.train({ model, parallel: { wrap: 'moe' } }) };
for (const run of Object.values(runs)) await run.step(3);
sl.compare(runs, 'comm')`,
        },
      };
    },
  },
  {
    claim: claimOf('guide.code.template'),
    expected: { verdict: 'off', value: 3, within: 0 },
    check() {
      const wrong = ['mixed_precision=True', 'size_based_auto_wrap_policy', 'ShardStrategy.FULL_SHARD'].map(
        (name) => findFragment(name),
      );
      const numErrors = wrong.filter(({ inTheOriginal }) =>
        /Error|does not exist/.test(inTheOriginal),
      ).length;
      return {
        verdict: holdsOr(numErrors === 0, 'off'),
        predicted: numErrors,
        unit: 'errors',
        by: 'it stops at its first line; three names have to be corrected',
        why:
          'Tried on torch 2.13: mixed_precision=True raises an AttributeError (it has to be MixedPrecision(…)), a bare policy raises a ' +
          'TypeError (it needs functools.partial), and ShardStrategy does not exist (ShardingStrategy does).',
        evidence: {
          kind: 'run',
          source:
            "['mixed_precision=True', 'size_based_auto_wrap_policy', 'ShardStrategy.FULL_SHARD'].map((name) => sl.lookup(name).inTheOriginal)",
        },
      };
    },
  },
  {
    claim: claimOf('guide.tune.contradiction'),
    expected: { verdict: 'contradicts itself', value: 1.5 },
    check() {
      const held = (strategy: 'FULL_SHARD' | 'SHARD_GRAD_OP'): number =>
        forecastRun(parseTrainConfig({ model: 'tiny', parallel: { strategy } }), 8)?.peaks['param.full'] ?? 0;
      return {
        verdict: 'contradicts itself',
        judged: true,
        predicted: volumeAgainstDdp('FULL_SHARD', 8) / volumeAgainstDdp('SHARD_GRAD_OP', 8),
        unit: "x SHARD_GRAD_OP's volume under FULL_SHARD",
        by: 'two statements exclude each other, twice',
        why:
          'Bytes and matmuls both grow with the parameters, so the share of communication does not depend on size, but on tokens per GPU and, ' +
          `in small models, on latency. SHARD_GRAD_OP holds ${times(held('SHARD_GRAD_OP') / held('FULL_SHARD'))} as many whole parameters as ` +
          'FULL_SHARD (tiny model, 8 ranks) and moves a third fewer bytes.',
        evidence: { kind: 'formula', source: '(3 * 7 / 8) / (2 * 7 / 8)' },
      };
    },
  },
  {
    claim: claimOf('guide.future'),
    expected: { verdict: 'undefined' },
    check: () => ({
      verdict: 'undefined',
      judged: true,
      unit: '%',
      by: 'a forecast without a list of what it counts',
      why: 'The guide does not list the frameworks of which 70% are to use FSDP, and "qubit sharding" has no meaning. What can be checked is older than the guide: transformer_auto_wrap_policy and size_based_auto_wrap_policy exist since PyTorch 1.12.',
      evidence: { kind: 'run', source: "sl.lookup('size_based_auto_wrap_policy')" },
    }),
  },
];

function times(factor: number): string {
  return `${factor.toPrecision(2)} times`;
}

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { roundValues } from '../../../src/core/rounding';
import { valuesHere } from '../../support/cases';
import { type PrecisionResult, type PrecisionRun, trainPrecisions } from './precision-rank';

/** The second step takes its forward from parameters that the first one updated. */
const STEPS = 2;
const LAYERS = 2;
const MODEL = { kind: 'gpt', layers: LAYERS, dim: 16, heads: 2, vocab: 64, seq: 8 } as const;
const STRATEGIES = [
  'NO_SHARD',
  'ZERO_1',
  'ZERO_2',
  'SHARD_GRAD_OP',
  'FULL_SHARD',
] as const satisfies StrategyName[];

/** Policies whose roundings are at the same operations for any number of ranks. */
const POLICIES = {
  bf16: { paramDtype: 'bf16' },
  'bf16, reduced in fp32': { paramDtype: 'bf16', reduceDtype: 'fp32' },
  'bf16, output too': { paramDtype: 'bf16', outputDtype: 'bf16' },
  'bf16, inputs as they come': { paramDtype: 'bf16', castForwardInputs: false },
  'fp16, scaled': { paramDtype: 'fp16' },
} as const satisfies Record<string, TrainConfigInput['mixedPrecision']>;
const SCALED = { gradScaler: { initScale: 2 ** 12 } } as const;
type PolicyName = keyof typeof POLICIES;
const POLICY_NAMES = Object.keys(POLICIES) as PolicyName[]; // its own keys

function configOf(strategy: StrategyName, more: TrainConfigInput): TrainConfigInput {
  const optimizer = { lr: 1e-2, eps: 1e-4 };
  return {
    model: MODEL,
    data: 'synthetic',
    batch: 2,
    optimizer,
    ...more,
    parallel: { strategy, ...more.parallel },
  };
}

async function results(
  world: number,
  runs: readonly PrecisionRun[],
): Promise<Map<string, PrecisionResult[]>> {
  const byRank = await trainPrecisions(world, runs);
  return new Map(runs.map(({ name }, i) => [name, byRank.flatMap((all) => all[i] ?? [])]));
}

/** Whole parameters and gradients, from the parts of all ranks. */
function wholes(byRank: readonly PrecisionResult[]): Map<string, { values: number[]; grads: number[] }> {
  const found = new Map<string, { values: number[]; grads: number[] }>();
  for (const { name, start, values, grads } of byRank.flatMap(({ parts }) => parts)) {
    const whole = found.get(name) ?? { values: [], grads: [] };
    found.set(name, whole);
    values.forEach((value, i) => {
      whole.values[start + i] = value;
    });
    grads.forEach((grad, i) => {
      whole.grads[start + i] = grad;
    });
  }
  return found;
}

/** Largest ‖a - b‖/‖b‖ over all parameters. */
function difference(
  a: readonly PrecisionResult[],
  b: readonly PrecisionResult[],
  field: 'values' | 'grads',
  leaveOut: (name: string) => boolean = () => false,
): number {
  const [left, right] = [wholes(a), wholes(b)];
  assert.deepEqual([...left.keys()].sort(), [...right.keys()].sort());
  return Math.max(
    ...[...right]
      .filter(([name]) => !leaveOut(name))
      .map(([name, expected]) => {
        const actual = left.get(name)?.[field] ?? [];
        assert.equal(actual.length, expected[field].length, name);
        const squares = (values: readonly number[]): number =>
          values.reduce((sum, value) => sum + value * value, 0);
        const apart = Math.sqrt(
          squares(expected[field].map((value, i) => value - (actual[i] ?? Number.NaN))),
        );
        return apart / (Math.sqrt(squares(expected[field])) || 1);
      }),
  );
}

const mustHave = (all: ReadonlyMap<string, PrecisionResult[]>, name: string): PrecisionResult[] => {
  const found = all.get(name);
  if (found === undefined) throw new Error(`no run ${name}`);
  return found;
};

/**
 * A single process computes the batches of all ranks as microbatches, with the same roundings. With a number of ranks
 * that is a power of two, dividing by it commutes with rounding, and sums are in rank order in both: equal to the bit.
 */
for (const world of valuesHere([1, 2, 4], [1])) {
  describe(`${world} ranks`, () => {
    const runs = POLICY_NAMES.flatMap((policy) =>
      STRATEGIES.map((strategy): PrecisionRun => {
        const config = configOf(strategy, { mixedPrecision: POLICIES[policy], ...SCALED });
        return { name: `${policy} ${strategy}`, config, steps: STEPS };
      }),
    );
    const twins = POLICY_NAMES.map((policy): PrecisionRun => {
      const mixedPrecision = POLICIES[policy];
      const config = configOf('NO_SHARD', { mixedPrecision, ...SCALED, accumulation: world });
      return { name: policy, config, steps: STEPS, standsFor: world };
    });
    const both = Promise.all([results(world, runs), results(1, twins)]);
    both.catch(() => undefined); // each test that awaits it reports its failure

    for (const policy of POLICY_NAMES) {
      for (const strategy of STRATEGIES) {
        test(`${policy}, ${strategy}: parameters and gradients equal those of one process with the same roundings`, async () => {
          const [sharded, single] = await both;
          const ranks = mustHave(sharded, `${policy} ${strategy}`);
          const twin = mustHave(single, policy);
          // A few gradients are below float16's normal numbers despite the scale: halving them loses a bit.
          const bound = policy === 'fp16, scaled' ? 1e-7 : 0;
          assert.ok(
            difference(ranks, twin, 'grads') <= bound,
            `gradients ${difference(ranks, twin, 'grads')}`,
          );
          assert.ok(
            difference(ranks, twin, 'values') <= 10 * bound,
            `parameters ${difference(ranks, twin, 'values')}`,
          );
          for (const { residual, left } of ranks) assert.deepEqual([residual, left], [0, 0]);
        });
      }
    }

    test('the parameters that the optimizer updates stay float32: they have bits that the policy would round away', async () => {
      const [sharded] = await both;
      const ranks = mustHave(sharded, 'bf16 FULL_SHARD');
      const values = Float32Array.from(
        ranks.flatMap(({ parts }) => parts.flatMap((part) => [...part.values])),
      );
      const rounded = values.slice();
      roundValues(rounded, 'bfloat16');
      const numRounded = values.filter((value, i) => value !== rounded[i]).length;
      assert.ok(numRounded > 0.8 * values.length, `${numRounded} of ${values.length}`);
      const gradients = Float32Array.from(
        ranks.flatMap(({ parts }) => parts.flatMap((part) => [...part.grads])),
      );
      const asReduced = gradients.slice();
      roundValues(asReduced, 'bfloat16');
      assert.deepEqual(gradients, asReduced, 'gradients are what the wire gave');
    });
  });
}

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { StrategyName } from '../../src/config/strategies';
import type { TrainConfigInput } from '../../src/config/train-config';
import { valuesHere } from '../support/cases';
import { relativeDistance } from '../support/close';
import { type HeldPart, type ModelResult, type ModelRun, trainModels } from './models-rank';

/** One of two experts trains in the first and the third step, the other one in the second. */
const STEPS = 3;
/** float32 sums in another order. */
const BOUND = 1e-5;

const LLAMA = {
  kind: 'llama',
  layers: 2,
  dim: 16,
  heads: 4,
  kvHeads: 2,
  ffn: 22,
  vocab: 61,
  seq: 8,
} as const;
const DIT: Extract<TrainConfigInput['model'], { kind: 'dit' }> = {
  kind: 'dit',
  layers: 2,
  dim: 16,
  heads: 2,
  ffn: 20,
  latent: [2, 4, 4],
  inChannels: 5,
  outChannels: 3,
  freqDim: 8,
  textDim: 6,
  textLen: 3,
};

const MODELS: Readonly<Record<string, TrainConfigInput['model']>> = {
  llama: LLAMA,
  'llama with biases, tied': { ...LLAMA, tied: true, qkvBias: true },
  dit: { ...DIT },
  'dit of two experts': { ...DIT, experts: 2 },
};
const STRATEGIES: readonly StrategyName[] = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD'];
/** Models of each world and their strategies; few sizes are multiples of 3. */
const WORLDS = {
  2: { names: valuesHere(['llama', 'dit of two experts'], [1]), strategies: valuesHere(STRATEGIES, [0, 4]) },
  3: {
    names: valuesHere(['llama with biases, tied', 'dit', 'dit of two experts'], [0]),
    strategies: valuesHere(STRATEGIES, [2, 4]),
  },
};

const configOf = (model: TrainConfigInput['model'], more: TrainConfigInput = {}): TrainConfigInput => ({
  model,
  data: 'synthetic',
  batch: 2,
  steps: STEPS,
  // A large eps, so that noise of small gradients is not amplified.
  optimizer: { lr: 1e-2, eps: 1e-2, weightDecay: 0.1 },
  ...more,
});

/** Every run of a world by its name, with the reports of its ranks. */
async function results(
  world: number,
  runs: Readonly<Record<string, ModelRun>>,
): Promise<Map<string, ModelResult[]>> {
  const byRank = await trainModels(world, Object.values(runs), 'auto');
  return new Map(
    Object.keys(runs).map((name, i) => [name, byRank.flatMap((reported) => reported.slice(i, i + 1))]),
  );
}

/** A step's values and gradients of whole parameters, from the parts that ranks hold; an empty list means no gradient. */
function wholes(
  found: readonly ModelResult[],
  step: number,
): Map<string, { values: number[]; grad: number[] }> {
  const all = new Map<string, { values: number[]; grad: number[] }>();
  const put = (target: number[], part: HeldPart, values: readonly number[]): void => {
    values.forEach((value, i) => {
      target[part.start + i] = value;
    });
  };
  for (const part of found.flatMap(({ parts }) => parts[step] ?? [])) {
    const whole = all.get(part.parameter) ?? { values: [], grad: [] };
    all.set(part.parameter, whole);
    put(whole.values, part, part.values);
    put(whole.grad, part, part.grad);
  }
  return all;
}

/** The largest relative distance of any parameter or gradient at any step; infinite if only one side has a gradient. */
function distance(found: readonly ModelResult[], expected: readonly ModelResult[]): number {
  let worst = 0;
  for (let step = 0; step < STEPS; step++) {
    const [ours, theirs] = [wholes(found, step), wholes(expected, step)];
    assert.deepEqual([...ours.keys()].sort(), [...theirs.keys()].sort());
    for (const [name, { values, grad }] of theirs) {
      const own = ours.get(name) ?? { values: [], grad: [] };
      if (own.grad.length !== grad.length) return Number.POSITIVE_INFINITY;
      worst = Math.max(worst, relativeDistance(own.values, values), relativeDistance(own.grad, grad));
    }
    const [one, other] = [found[0]?.losses[step] ?? Number.NaN, expected[0]?.losses[step] ?? Number.NaN];
    worst = Math.max(worst, Math.abs(one - other) / other);
  }
  return worst;
}

for (const [key, { names, strategies }] of Object.entries(WORLDS)) {
  const world = Number(key);
  describe(`models on ${world} ranks`, () => {
    let sharded = new Map<string, ModelResult[]>();
    let alone = new Map<string, ModelResult[]>();

    before(async () => {
      const runs: Record<string, ModelRun> = {};
      const single: Record<string, ModelRun> = {};
      for (const name of names) {
        const model = MODELS[name];
        single[name] = { config: configOf(model), inTurn: world };
        for (const strategy of strategies)
          runs[`${name}, ${strategy}`] = { config: configOf(model, { parallel: { strategy } }) };
        const parallel = { strategy: 'FULL_SHARD' } as const;
        runs[`${name}, recomputed`] = {
          config: configOf(model, { parallel, activationCheckpointing: 'full' }),
        };
        runs[`${name}, root only`] = { config: configOf(model, { parallel: { ...parallel, wrap: 'root' } }) };
        runs[`${name}, accumulated`] = { config: configOf(model, { parallel, accumulation: 2 }) };
        single[`${name}, accumulated`] = { config: configOf(model, { accumulation: 2 }), inTurn: world };
        runs[`${name}, broken`] = { config: configOf(model, { parallel }), isBroken: true };
      }
      [sharded, alone] = await Promise.all([results(world, runs), results(1, single)]);
    });

    for (const name of names) {
      for (const how of [...strategies, 'root only']) {
        test(`${name}: losses, gradients and parameters of ${STEPS} steps equal those of one process, ${how}`, (t) => {
          const found = distance(sharded.get(`${name}, ${how}`) ?? [], alone.get(name) ?? []);
          t.diagnostic(`largest relative difference ${found.toExponential(1)}`);
          assert.ok(found <= BOUND, `${found}`);
        });
      }

      test(`${name}: microbatches of a step add up`, () => {
        const found = distance(
          sharded.get(`${name}, accumulated`) ?? [],
          alone.get(`${name}, accumulated`) ?? [],
        );
        assert.ok(found <= BOUND, `${found}`);
      });

      test(`${name}: recomputation of activations changes no bit`, () => {
        assert.deepEqual(sharded.get(`${name}, recomputed`), sharded.get(`${name}, FULL_SHARD`));
      });

      test(`${name}: the comparison finds a wrong gradient of one rank`, () => {
        assert.ok(distance(sharded.get(`${name}, broken`) ?? [], alone.get(name) ?? []) > 0.01);
      });
    }

    test('no run leaves memory behind', () => {
      for (const [name, found] of [...sharded, ...alone]) {
        for (const { leftBytes } of found) assert.equal(leftBytes, 0, name);
      }
    });

    if (!names.includes('dit of two experts')) return;
    test('of two experts only the one that ran is reduced and updated', () => {
      for (const strategy of strategies) {
        const found = sharded.get(`dit of two experts, ${strategy}`) ?? [];
        for (const { reduced } of found) {
          reduced.forEach((modules, step) => {
            const idle = step % 2 === 0 ? 'low_noise_model' : 'high_noise_model';
            assert.ok(modules.length > 0, `step ${step}`);
            assert.ok(
              !modules.some((module) => module.startsWith(idle)),
              `${strategy}, step ${step}: ${modules}`,
            );
          });
        }
        const [first, second] = [wholes(found, 0), wholes(found, 1)];
        for (const [name, { values }] of first) {
          const isSame = relativeDistance(second.get(name)?.values ?? [], values) === 0;
          assert.equal(
            isSame,
            name.startsWith('high_noise_model'),
            `${strategy}: ${name} after the second step`,
          );
        }
      }
    });
  });
}

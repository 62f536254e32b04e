import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { casesHere, valuesHere } from '../../support/cases';
import { launchRanks } from '../../support/launch-ranks';
import { DEFECTS, ROUNDED, RUNS } from './tensor-cases';
import type { TensorResult, TensorRun } from './tensor-rank';

const SCRIPT = join(__dirname, 'tensor-rank.js');
const LOSS_BOUND = 2e-4;
/** float32 sums in another order. */
const BOUND = 1e-5;

async function results(
  world: number,
  runs: Readonly<Record<string, TensorRun>>,
): Promise<Map<string, readonly TensorResult[]>> {
  const args = { blas: 'auto', runs: Object.values(runs) };
  const byRank = await launchRanks<TensorResult[]>({ script: SCRIPT, world, args });
  return new Map(
    Object.keys(runs).map((name, i) => [name, byRank.flatMap((found) => found.slice(i, i + 1))]),
  );
}

/** The largest relative difference of a loss or norm. */
function scalarDistance(found: readonly TensorResult[], what: 'losses' | 'norms'): number {
  const pairs = found.flatMap((result) => result[what]);
  return Math.max(...pairs.map(([own, expected]) => Math.abs(own - expected) / expected));
}

/** The largest relative difference of a parameter or gradient, at any step. */
function distance(found: readonly TensorResult[]): number {
  let most = 0;
  const [first] = found;
  assert.ok(first !== undefined);
  first.parameters.forEach((names, step) => {
    for (const name of Object.keys(names)) {
      const parts = found.flatMap((result) => result.parameters[step]?.[name] ?? []);
      const sum = (what: 'values' | 'grads', i: 0 | 1): number =>
        parts.reduce((total, part) => total + part[what][i], 0);
      const count = parts.reduce((total, part) => total + part.count, 0);
      const [size, copies]: readonly [number, number] = first.wholes[name] ?? [0, 0];
      assert.equal(count, size * copies, `elements of ${name} on all ranks`);
      for (const what of ['values', 'grads'] as const)
        most = Math.max(most, Math.sqrt(sum(what, 0) / (sum(what, 1) || 1)));
    }
  });
  return most;
}

/** Elements that a rank received for the activations of a module and the modules inside it. */
function receivedFor(collectives: TensorResult['collectives'], module: string): number {
  const own = collectives.filter(
    ({ cause, module: name }) => cause === 'activation' && `${name}.`.startsWith(`${module}.`),
  );
  return own.reduce((sum, { wireBytes }) => sum + wireBytes / 4, 0);
}

/**
 * Elements per rank and step. One all-reduce of n elements receives 2 n (t - 1) / t, and bsh are the elements of an activation
 * [B, T, d]: a layer has two all-reduces in forward and two in backward, and two more if its forward runs again.
 */
const layerOf = (bsh: number, t: number, times: 8 | 12 = 8): number => (times * bsh * (t - 1)) / t;
const [GPT_BSH, LLAMA_BSH, ROWS, WIDTH] = [2 * 12 * 24, 2 * 12 * 32, 2 * 12, 24];
/** With sequence parallelism, also the gradients of two norms' weights and biases and of two matrices' biases. */
const sharedOf = (t: number): number => (2 * 6 * WIDTH * (t - 1)) / t;
const endsOf = (t: number): Record<string, number> => ({
  wte: (2 * GPT_BSH * (t - 1)) / t,
  ln_f: (2 * GPT_BSH * (t - 1)) / t,
  // A maximum, a sum and a logit per row.
  lm_head: (2 * 3 * ROWS * (t - 1)) / t,
});

const RECEIVED: Record<2 | 3 | 4, Record<string, Record<string, number>>> = {
  2: {
    gpt: { 'blocks.0': layerOf(GPT_BSH, 2), 'blocks.1': layerOf(GPT_BSH, 2), ...endsOf(2) },
    'gpt, naive': {
      'blocks.0': layerOf(GPT_BSH, 2),
      'blocks.1': layerOf(GPT_BSH, 2),
      wte: 0,
      ln_f: 0,
      lm_head: 0,
    },
    'gpt, recomputed': { 'blocks.0': layerOf(GPT_BSH, 2, 12), 'blocks.1': layerOf(GPT_BSH, 2, 12) },
    'gpt, sequence parallel': {
      // The first layer gets the whole sequence, so backward gathers the gradient of its input.
      'blocks.0': layerOf(GPT_BSH, 2) + sharedOf(2) + GPT_BSH / 2,
      'blocks.1': layerOf(GPT_BSH, 2) + sharedOf(2),
    },
    'gpt, sequence parallel, recomputed': { 'blocks.1': layerOf(GPT_BSH, 2, 12) + sharedOf(2) },
  },
  3: { gpt: { 'blocks.0': layerOf(GPT_BSH, 3), 'blocks.1': layerOf(GPT_BSH, 3), ...endsOf(3) } },
  4: {
    // Two ranks share each head of keys and values, and so the gradients of both projections [4, 32].
    llama: { 'model.layers.1': layerOf(LLAMA_BSH, 4) + 2 * 4 * 32 },
    'gpt, 2 shards': { 'blocks.0': layerOf(GPT_BSH, 2), 'blocks.1': layerOf(GPT_BSH, 2) },
  },
};

/** The trainings of each world that `npm test` has. */
const IN_SHORT: Readonly<Record<2 | 3 | 4, readonly string[]>> = {
  2: [
    'gpt',
    'gpt, naive',
    'gpt with an own head, flash attention',
    'gpt, sequence parallel, recomputed',
    'qwen',
  ],
  3: [],
  4: ['llama', 'gpt, 2 replicas of DDP', 'llama, 2 shards, sequence parallel, recomputed', 'gpt, 2 shards'],
};

for (const world of valuesHere([2, 3, 4] as const, [0, 2])) {
  describe(`tensor parallelism on ${world} ranks`, () => {
    const runs = casesHere(RUNS[world], IN_SHORT[world]);
    let found = new Map<string, readonly TensorResult[]>();

    before(async () => {
      const more = world === 2 ? DEFECTS : world === 4 ? { rounded: ROUNDED } : {};
      found = await results(world, { ...runs, ...more });
    });

    for (const name of Object.keys(runs)) {
      test(`${name}: losses, gradients and parameters of its steps equal those of one process`, (t) => {
        const ranks = found.get(name) ?? [];
        const [losses, norms, parameters] = [
          scalarDistance(ranks, 'losses'),
          scalarDistance(ranks, 'norms'),
          distance(ranks),
        ];
        t.diagnostic(
          `largest relative differences: losses ${losses.toExponential(1)}, norms ${norms.toExponential(1)}, ` +
            `parameters and gradients ${parameters.toExponential(1)}`,
        );
        assert.ok(losses <= LOSS_BOUND, `losses ${losses}`);
        assert.ok(norms <= BOUND, `norms ${norms}`);
        assert.ok(parameters <= BOUND, `parameters ${parameters}`);
        for (const { logits } of ranks) assert.ok(logits <= 1e-4, `logits ${logits}`);
      });
    }

    test('no training leaves memory behind', () => {
      for (const [name, ranks] of found) for (const { leftBytes } of ranks) assert.equal(leftBytes, 0, name);
    });

    for (const [name, wanted] of Object.entries(RECEIVED[world]).filter(([name]) => name in runs)) {
      test(`${name}: each rank receives the elements of the formulas, by layer and step`, () => {
        for (const { collectives } of found.get(name) ?? []) {
          for (const [module, elements] of Object.entries(wanted))
            assert.equal(receivedFor(collectives, module), elements, module);
        }
      });
    }

    if (world === 4) {
      test('activations are sent with 16 bits where parameters have 16 bits', () => {
        const ranks = found.get('rounded') ?? [];
        for (const { collectives } of ranks)
          assert.equal(receivedFor(collectives, 'blocks.0'), layerOf(GPT_BSH, 2) / 2);
        const losses = scalarDistance(ranks, 'losses');
        assert.ok(losses > 0 && losses < 2e-3, `${losses}`);
      });
    }

    if (world === 2) {
      for (const name of Object.keys(DEFECTS)) {
        test(`the comparison finds a reduction that is missing: ${name}`, () => {
          const ranks = found.get(name) ?? [];
          assert.ok(Math.max(distance(ranks), scalarDistance(ranks, 'losses')) > 100 * BOUND);
        });
      }
    }
  });
}

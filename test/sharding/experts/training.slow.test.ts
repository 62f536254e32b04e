import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { RankScope } from '../../../src/launch/rank/scope';
import { communication } from '../../../src/ledger/communication';
import type { Run } from '../../../src/session/run/run';
import { shareJob } from '../../session/job-fixture';
import { casesHere, HAS_ALL_CASES } from '../../support/cases';

const MOE = { kind: 'moe', layers: 2, dim: 12, heads: 2, vocab: 61, seq: 6, experts: 4 } as const;
const TOKENS = Uint16Array.from({ length: 300 }, (_, i) => (i * i) % 61);
const CONFIG: TrainConfigInput = {
  model: MOE,
  data: { tokens: TOKENS, validation: 0.3 },
  batch: 2,
  clipNorm: 0.5,
};
const STEPS = HAS_ALL_CASES ? 3 : 2;

/** Losses are sums of the same float32 numbers in another order; a wrong reduction differs by 1e-2 and more. */
const WITHIN = 2e-5;

function assertClose(
  what: string,
  found: readonly number[],
  expected: readonly number[],
  within = WITHIN,
): void {
  assert.equal(found.length, expected.length);
  found.forEach((loss, i) => {
    assert.ok(Math.abs(loss - (expected[i] ?? 0)) <= within, `${what}: ${found} and not ${expected}`);
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

async function steps(run: Run, count = STEPS): Promise<number[]> {
  await run.step(count);
  return run.losses.slice(-count);
}

const shared = shareJob({ ranks: 4 });

test('job.train with parallel.ep', async (context) => {
  const job = shared();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-ep-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));

  const settings: Readonly<Record<string, TrainConfigInput>> = {
    'NO_SHARD, sparse gradients, accumulation': {
      parallel: { strategy: 'NO_SHARD', sparseGradients: true, ep: 2 },
      accumulation: 2,
    },
    'FULL_SHARD, recomputed, offloaded': {
      parallel: { ep: 4 },
      activationCheckpointing: 'full',
      offload: { parameters: true, activations: true },
    },
    'SHARD_GRAD_OP, units of experts, balanced': {
      model: { ...MOE, router: 'topk', auxLossWeight: 0.1, biasUpdateRate: 0.01 },
      parallel: { strategy: 'SHARD_GRAD_OP', wrap: 'moe', ep: 2 },
    },
    'ZERO_1, adapters, mixed precision': {
      parallel: { strategy: 'ZERO_1', ep: 2 },
      lora: { r: 2, targets: ['fc1', 'fc2'], useDora: true },
      mixedPrecision: 'bf16',
    },
  };
  const here = casesHere(settings, [
    'FULL_SHARD, recomputed, offloaded',
    'SHARD_GRAD_OP, units of experts, balanced',
    'ZERO_1, adapters, mixed precision',
  ]);
  for (const [name, setting] of Object.entries(here)) {
    await context.test(`has the losses of whole experts: ${name}`, async () => {
      const config = { ...CONFIG, ...setting };
      const plain = await job.train({ ...config, parallel: { ...config.parallel, ep: 1 } });
      const run = await job.train(config);
      // bf16 rounds sums that were added in another order.
      const within = config.mixedPrecision === undefined ? WITHIN : 1e-3;
      assertClose(name, await steps(run), await steps(plain), within);
      await run.dispose();
      await plain.dispose();
    });
  }

  await context.test(
    'saves what any layout loads, moves to other degrees, evaluates and samples',
    async () => {
      const plain = await job.train(CONFIG, { ranks: 2 });
      const split = await job.train({ ...CONFIG, parallel: { ep: 2 } }, { ranks: 2 });
      assertClose('before', await steps(split), await steps(plain));
      assert.match(inspect(split), /^FULL_SHARD × EP 2 on 2 ranks/);
      await split.save(join(folder, 'split'));
      await plain.save(join(folder, 'plain'));
      const fromSplit = await job.train(CONFIG, { ranks: 2 });
      const fromPlain = await job.train(
        { ...CONFIG, parallel: { strategy: 'NO_SHARD', ep: 2 } },
        { ranks: 2 },
      );
      await fromSplit.load(join(folder, 'split'));
      await fromPlain.load(join(folder, 'plain'));
      const greedy = { tokens: 4, temperature: 0 };
      assert.deepEqual(await split.sample([1, 2, 3], greedy), await plain.sample([1, 2, 3], greedy));
      const [{ loss, rows }, whole] = [await split.evaluate(), await plain.evaluate()];
      assertClose('validation', [loss, rows], [whole.loss, whole.rows]);
      const expected = await steps(plain);
      assertClose('saved by ep 2, loaded without', await steps(fromSplit), expected);
      assertClose('saved without, loaded by ep 2', await steps(fromPlain), expected);
      assert.match(String(await split.reshard({ ep: 1 })), /all bit-equal/);
      assert.match(String(await split.reshard({ ep: 2, strategy: 'ZERO_1' })), /all bit-equal/);
      assertClose('moved', await steps(split), expected);
      for (const run of [plain, split, fromSplit, fromPlain]) await run.dispose();
    },
  );

  await context.test('sends and counts the same rows in every run with the same seed', async () => {
    const config: TrainConfigInput = { ...CONFIG, model: { ...MOE, router: 'switch' } };
    const [one, again] = [
      await job.train(config),
      await job.train({ ...config, parallel: { strategy: 'ZERO_2', ep: 4 } }),
    ];
    assertClose('losses', await steps(again), await steps(one));
    const loads = one.results.map(({ experts }) => experts);
    assert.deepEqual(
      again.results.map(({ experts }) => experts),
      loads,
    );
    const rows = 4 * 2 * MOE.seq;
    for (const { tokens, dropped } of loads.flatMap((layers) => Object.values(layers ?? {})))
      assert.equal(sum(tokens) + sum(dropped), rows);
    assert.deepEqual(Object.keys(loads[0] ?? {}), ['blocks.0.moe', 'blocks.1.moe']);
    const table = again.experts({ layer: 'blocks.1.moe' }).table.rows;
    assert.equal(table.length, STEPS * 2 * MOE.experts);
    assert.equal(
      sum(table.map(({ rows: computed, dropped }) => Number(computed) + Number(dropped))),
      STEPS * 2 * rows,
    );
    assert.throws(() => one.experts({ layer: 'blocks.1.mo' }), { message: /did you mean 'blocks.1.moe'/ });
    for (const run of [one, again]) await run.dispose();
  });

  await context.test('counts each row once where ranks share matrices and sequences', async () => {
    const model = { ...MOE, seq: 8, router: 'topk' } as const;
    const plain = await job.train({ ...CONFIG, model }, { ranks: 1 });
    const split = await job.train({
      ...CONFIG,
      model,
      parallel: { tp: 2, sequenceParallel: true, cp: 2, cpKind: 'ring', ep: 2 },
    });
    assertClose('losses', await steps(split), await steps(plain));
    assert.deepEqual(
      split.results.map(({ experts }) => experts),
      plain.results.map(({ experts }) => experts),
    );
    for (const run of [plain, split]) await run.dispose();
  });

  await context.test('receives 2d(a + r) elements per layer and step', async () => {
    // Every expert takes equally many rows, so of each rank's rows (P - 1) / P travel.
    const run = await job.train({
      ...CONFIG,
      model: { ...MOE, router: 'expert-choice', topK: 2 },
      parallel: { strategy: 'NO_SHARD', ep: 4 },
    });
    await run.step();
    const routed = (2 * MOE.seq * 2 * 3) / 4;
    const rows = communication([...run.records]).filter(({ cause }) => cause === 'activation');
    assert.equal(rows.length, 4);
    for (const { wireBytes } of rows)
      assert.equal(wireBytes / 4, MOE.layers * 2 * MOE.dim * (routed + routed));
    await run.dispose();
  });

  await context.test('refuses what it cannot divide', async () => {
    const uneven: TrainConfigInput = { ...CONFIG, model: { ...MOE, experts: 6 }, parallel: { ep: 3 } };
    await assert.rejects(job.train(uneven), { code: 'MESH', message: /3 does not divide the 4 ranks/ });
    const own = { model: ({ nn }: RankScope) => new nn.Linear(4, 4), data: () => ({ x: [[1, 2, 3, 4]] }) };
    await assert.rejects(job.train({ ...own, parallel: { ep: 2 } }), {
      code: 'CONFIG',
      message: /a Linear has no experts/,
    });
  });
});

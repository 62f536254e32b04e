import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Run } from '../../../src/session/run/run';
import { casesHere, HAS_ALL_CASES, valuesHere } from '../../support/cases';
import { shareJob } from '../job-fixture';

// 61 tokens and 4 heads: tensor parallelism over 2 ranks pads the vocabulary.
const GPT = { kind: 'gpt', layers: 2, dim: 24, heads: 4, vocab: 61, seq: 8 } as const;
const LLAMA = { kind: 'llama', layers: 2, dim: 24, heads: 4, kvHeads: 2, vocab: 61, seq: 8 } as const;
const CONFIG: TrainConfigInput = { model: GPT, data: 'synthetic', batch: 2 };
const STEPS = HAS_ALL_CASES ? 3 : 2;

/** Losses are sums of the same float32 numbers in another order; a wrong reduction differs by 1e-2 and more. */
const WITHIN = 2e-5;

function assertClose(what: string, found: readonly number[], expected: readonly number[]): void {
  assert.equal(found.length, expected.length);
  found.forEach((loss, i) => {
    assert.ok(Math.abs(loss - (expected[i] ?? 0)) <= WITHIN, `${what}: ${found} and not ${expected}`);
  });
}

async function steps(run: Run, count = STEPS): Promise<number[]> {
  await run.step(count);
  return run.losses.slice(-count);
}

const shared = shareJob({ ranks: 4 });

test('job.train with parallel.tp and parallel.cp', async (context) => {
  const job = shared();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-tp-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));

  await context.test('has the losses of the data-parallel ranks without it', async () => {
    const settings: Readonly<Record<string, TrainConfigInput>> = {
      FULL_SHARD: {},
      'ZERO_2, accumulation': { parallel: { strategy: 'ZERO_2' }, accumulation: 2 },
      'NO_SHARD, recomputed': { parallel: { strategy: 'NO_SHARD' }, activationCheckpointing: 'full' },
      'llama, mixed precision': { model: LLAMA, mixedPrecision: 'bf16' },
    };
    const here = casesHere(settings, ['ZERO_2, accumulation', 'llama, mixed precision']);
    for (const [name, setting] of Object.entries(here)) {
      const config = { ...CONFIG, ...setting };
      const plain = await job.train(config, { ranks: 2 });
      const expected = await steps(plain);
      for (const sequenceParallel of valuesHere([false, true], [1])) {
        const parallel = { ...config.parallel, tp: 2, sequenceParallel };
        const run = await job.train({ ...config, parallel });
        // bf16 rounds sums that were added in another order.
        const found = await steps(run);
        if (config.mixedPrecision === undefined) assertClose(name, found, expected);
        else
          assert.ok(
            found.every((loss, i) => Math.abs(loss - (expected[i] ?? 0)) < 5e-3),
            name,
          );
        await run.dispose();
      }
      await plain.dispose();
    }
  });

  await context.test('saves what any layout loads, moves to other degrees, and samples', async () => {
    const plain = await job.train(CONFIG, { ranks: 2 });
    const split = await job.train({ ...CONFIG, parallel: { tp: 2 } });
    assertClose('before', await steps(split), await steps(plain));
    assert.match(inspect(split), /^FULL_SHARD × TP 2 on 4 ranks/);
    await split.save(join(folder, 'split'));
    await plain.save(join(folder, 'plain'));
    const [fromSplit, fromPlain] = [
      await job.train(CONFIG, { ranks: 2 }),
      await job.train({
        ...CONFIG,
        parallel: { strategy: 'SHARD_GRAD_OP', tp: 2, sequenceParallel: true },
      }),
    ];
    await fromSplit.load(join(folder, 'split'));
    await fromPlain.load(join(folder, 'plain'));
    const prompt = [1, 2, 3];
    const greedy = { tokens: 4, temperature: 0 };
    assert.deepEqual(await split.sample(prompt, greedy), await plain.sample(prompt, greedy));
    const expected = await steps(plain);
    assertClose('saved by tp 2, loaded without', await steps(fromSplit), expected);
    assertClose('saved without, loaded by tp 2', await steps(fromPlain), expected);
    assert.match(String(await split.reshard({ tp: 1, world: 2 })), /all bit-equal/);
    assert.match(String(await split.reshard({ tp: 2, world: 4, strategy: 'ZERO_1' })), /all bit-equal/);
    assertClose('moved', await steps(split), expected);
  });

  await context.test('has the same losses with sequences divided by parallel.cp', async () => {
    const settings: Readonly<Record<string, TrainConfigInput['parallel']>> = {
      'a ring of 4': { cp: 4, cpKind: 'ring' },
      'heads exchanged by 2, ZERO_2': { cp: 2, strategy: 'ZERO_2' },
      'with tp': { cp: 2, tp: 2, sequenceParallel: true },
    };
    for (const model of [GPT, LLAMA]) {
      const here = casesHere(
        settings,
        model === GPT ? ['a ring of 4', 'with tp'] : ['heads exchanged by 2, ZERO_2'],
      );
      for (const [name, parallel] of Object.entries(here)) {
        const ranks = 4 / (parallel?.cp ?? 1) / (parallel?.tp ?? 1);
        const plain = await job.train({ ...CONFIG, model }, { ranks });
        const run = await job.train({ ...CONFIG, model, parallel });
        assertClose(name, await steps(run), await steps(plain));
        await assert.rejects(run.sample([1, 2]), { code: 'CONFIG', message: /parallel\.cp/ });
        await run.dispose();
        await plain.dispose();
      }
    }
  });

  await context.test('evaluates parts of sequences, but measures whole outputs only', async () => {
    const tokens = Uint16Array.from({ length: 200 }, (_, i) => (i * i) % 61);
    const config: TrainConfigInput = { ...CONFIG, data: { tokens, validation: 0.3 } };
    const plain = await job.train(config, { ranks: 2 });
    const run = await job.train({ ...config, parallel: { cp: 2 } });
    const [{ loss, rows }, expected] = [await run.evaluate(), await plain.evaluate()];
    assertClose('validation', [loss, rows], [expected.loss, expected.rows]);
    const metrics = { one: () => 1 };
    await assert.rejects(run.evaluate({ metrics }), { code: 'CONFIG', message: /parallel\.cp 2.*reshard/ });
    await run.dispose();
    await plain.dispose();
  });

  await context.test('refuses what it cannot cut', async () => {
    const parallel = { tp: 3 } as const;
    await assert.rejects(job.train({ ...CONFIG, parallel }), { code: 'MESH', message: /tp\(3\).*4 ranks/s });
    const mesh = { dpReplicate: 2, dpShard: 2 };
    const hybrid = { tp: 2, strategy: 'HYBRID_SHARD', mesh } as const;
    await assert.rejects(job.train({ ...CONFIG, parallel: hybrid }), {
      code: 'MESH',
      message: /parallel\.tp 2 leaves 2 ranks to shard over; .*product is 2, or train on 8 ranks/,
    });
    await assert.rejects(job.train({ ...CONFIG, parallel: { tp: 4 }, model: { ...GPT, heads: 6 } }), {
      code: 'CONFIG',
      message: /heads/,
    });
    const own = { model: ({ nn }: RankScope) => new nn.Linear(4, 4), data: () => ({ x: [[1, 2, 3, 4]] }) };
    await assert.rejects(job.train({ ...own, parallel: { tp: 2 } }), {
      code: 'CONFIG',
      message:
        /cannot divide a Linear in job\.train: .*; in a loop of a %%ranks cell, parallelizeModule\(model, mesh, plan\) divides/,
    });
  });
});

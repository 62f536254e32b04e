import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { testData } from '../../support/paths';
import { launchFor } from '../job-fixture';

interface Recorded {
  readonly ids: readonly (readonly number[])[];
  readonly greedy: readonly number[];
}

const MODEL = { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;
/** The mean is over float32 losses near 5. */
const TOLERANCE = 1e-6;

const baseDir = mkdtempSync(join(tmpdir(), 'shardlab-inference-'));
after(() => rmSync(baseDir, { recursive: true, force: true }));
const source = readFileSync(require.resolve('typescript/lib/lib.es5.d.ts'), 'utf8');
writeFileSync(join(baseDir, 'my.txt'), source.slice(0, 3000));

test('runs without gradients', async (context) => {
  const job = await launchFor(context, { ranks: 4, baseDir });
  const data = { path: 'my.txt', validation: 0.15 };

  await context.test(
    'the validation loss of every world and strategy equals that of one process',
    async () => {
      let expected: number | undefined;
      for (const [ranks, strategy] of [
        [1, 'NO_SHARD'],
        [2, 'FULL_SHARD'],
        [3, 'SHARD_GRAD_OP'],
        [4, 'ZERO_2'],
      ] as const) {
        const run = await job.train({ model: MODEL, data, batch: 4, parallel: { strategy } }, { ranks });
        const { loss, rows, perplexity } = await run.evaluate();
        expected ??= loss;
        assert.equal(rows, 56);
        assert.ok(Math.abs(loss - expected) < TOLERANCE, `${strategy} on ${ranks}: ${loss}, ${expected}`);
        assert.ok(Math.abs(perplexity - Math.exp(loss)) < 1e-9);
        await run.dispose();
      }
    },
  );

  await context.test(
    'an evaluation and a sample leave the training unchanged, and nothing in memory',
    async () => {
      const config = { model: MODEL, data, batch: 4, parallel: { strategy: 'FULL_SHARD' } } as const;
      const [plain, observed] = [
        await job.train(config, { ranks: 2 }),
        await job.train(config, { ranks: 2 }),
      ];
      await plain.step(4);
      await observed.step(2);
      const bytes = observed.records.newest().map(({ memory }) => memory.restBytes);
      await observed.evaluate();
      assert.equal((await observed.sample('var ', { tokens: 3 })).length, 7);
      await observed.step(2);
      assert.deepEqual(observed.losses, plain.losses);
      assert.deepEqual(
        observed.records.newest().map(({ memory }) => memory.restBytes),
        bytes,
      );
      assert.match(
        String(await observed.evaluate()),
        /^step 4: validation loss \d\.\d{4} \(perplexity \d+(\.\d+)?\) over 56 rows/,
      );
      await plain.dispose();
      await observed.dispose();
    },
  );

  await context.test(
    "greedy samples of transformers' models equal those of transformers, sharded or not",
    async () => {
      const recorded = JSON.parse(
        readFileSync(join(testData('pretrained'), 'recorded.json'), 'utf8'),
      ) as Record<string, Recorded>;
      for (const name of ['gpt2', 'llama', 'qwen2']) {
        const { ids = [], greedy = [] } = recorded[name] ?? {};
        for (const [ranks, strategy] of [
          [1, 'NO_SHARD'],
          [4, 'FULL_SHARD'],
          [2, 'ZERO_1'],
        ] as const) {
          const run = await job.train(
            {
              model: { from: join(testData('pretrained'), name) },
              data: 'synthetic',
              parallel: { strategy },
            },
            { ranks },
          );
          const prompt = ids[0]?.slice(0, 4) ?? [];
          const made = await run.sample(prompt, { tokens: greedy.length - 4, temperature: 0 });
          assert.deepEqual(made, greedy, `${name}, ${strategy}`);
          await run.dispose();
        }
      }
    },
  );

  await context.test('random samples depend on the seed only, and wrong requests are refused', async () => {
    const run = await job.train({ model: MODEL, data: 'typescript' }, { ranks: 2 });
    const twice = [
      await run.sample('a', { tokens: 20, seed: 5 }),
      await run.sample('a', { tokens: 20, seed: 5 }),
    ];
    assert.equal(twice[0], twice[1]);
    assert.notEqual(twice[0], await run.sample('a', { tokens: 20, seed: 6 }));
    await assert.rejects(run.evaluate(), {
      code: 'CONFIG',
      message: /evaluate needs rows that are never trained on/,
    });
    await assert.rejects(run.sample('', {}), { code: 'CONFIG', message: /the prompt is empty/ });
    await assert.rejects(run.sample([300]), {
      code: 'CONFIG',
      message: /the model has the tokens 0 to 255, but an id is 300/,
    });
    await assert.rejects(run.sample('a', { topK: 0 }), {
      code: 'CONFIG',
      message: /topK is 0; give an integer from 1, or null/,
    });
    await assert.rejects(run.sample('a', { temperature: -1 }), {
      code: 'CONFIG',
      message: /temperature is -1; give a number from 0/,
    });
    await assert.rejects(run.sample('a', { topP: 1 } as object), { code: 'CONFIG', message: /topP/ });
    await run.step();
    await run.dispose();
  });
});

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Tensor } from '../../../src/core/tf';
import type { RankScope } from '../../../src/launch/rank/scope';
import { valuesHere } from '../../support/cases';
import { testData } from '../../support/paths';
import { launchFor } from '../job-fixture';

interface Recorded {
  readonly ids: readonly (readonly number[])[];
  readonly greedy: readonly number[];
}

const MODEL = { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;
/** The mean is over float32 losses near 5. */
const TOLERANCE = 1e-6;

/** The loss, from the logits. */
const entropy = (logits: Tensor, { y }: { readonly y: Tensor }, { nn, tf }: RankScope): Tensor =>
  nn.functional.crossEntropy(tf.reshape(logits, [-1, 256]), tf.reshape(y, [-1]));
const accuracy = (logits: Tensor, { y }: { readonly y: Tensor }, { tf }: RankScope): Tensor =>
  tf.mean(tf.equal(tf.argMax(logits, -1), y));

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
      let expected: { readonly loss: number; readonly accuracy: number } | undefined;
      for (const [ranks, strategy] of [
        [1, 'NO_SHARD'],
        [2, 'FULL_SHARD'],
        [3, 'SHARD_GRAD_OP'],
        [4, 'ZERO_2'],
      ] as const) {
        const run = await job.train({ model: MODEL, data, batch: 4, parallel: { strategy } }, { ranks });
        const { loss, rows, perplexity, metrics } = await run.evaluate({ metrics: { accuracy, entropy } });
        expected ??= { loss, accuracy: metrics.accuracy };
        assert.equal(rows, 56);
        assert.ok(
          Math.abs(loss - expected.loss) < TOLERANCE,
          `${strategy} on ${ranks}: ${loss}, ${expected.loss}`,
        );
        assert.ok(Math.abs(metrics.entropy - loss) < TOLERANCE, `${metrics.entropy}, ${loss}`);
        assert.ok(Math.abs(metrics.accuracy - expected.accuracy) < TOLERANCE);
        assert.equal((await run.evaluate()).loss, loss);
        assert.equal(perplexity, Math.exp(loss));
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
      assert.match(String(await observed.step()), / tokens\/s, /);
      const greedy = () => observed.sample('var ', { tokens: 8, temperature: 0 });
      const [sample, { loss }] = [await greedy(), await observed.evaluate()];
      await observed.reshard({ strategy: 'ZERO_1', world: 3 });
      assert.equal(await greedy(), sample);
      assert.ok(Math.abs((await observed.evaluate()).loss - loss) < TOLERANCE);
      await plain.dispose();
      await observed.dispose();
    },
  );

  await context.test('a run on rows without tokens counts rows, and has no perplexity', async () => {
    const run = await job.train({
      model: ({ nn }) => new nn.Linear(2, 1),
      loss: (output, { y }, { nn }) => nn.functional.mseLoss(output, y.reshape([-1, 1])),
      data: {
        x: { values: new Float32Array(40).fill(1), shape: [20, 2] },
        y: new Float32Array(20),
        validation: 0.2,
      },
    });
    assert.match(String(await run.step()), /^step 1: loss \d\.\d{4}, [\d,]+ rows\/s, /);
    assert.match(String(await run.evaluate()), /^step 1: validation loss \d\.\d{4} over 4 rows in /);
    assert.equal((await run.evaluate()).perplexity, null);
    // The mean over 4 rows on 4 ranks, which get one row each.
    const measured = await run.evaluate({
      metrics: {
        rows: ({ shape }) => shape[0] ?? 0,
        error: (output, { y }, { nn }) => nn.functional.mseLoss(output, y.reshape([-1, 1])),
      },
    });
    assert.equal(measured.metrics.rows, 1);
    assert.ok(Math.abs(measured.metrics.error - measured.loss) < TOLERANCE);
    assert.match(
      String(measured),
      /^step 1: validation loss \d\.\d{4}, rows 1\.0000, error \d\.\d{4} over 4 rows in /,
    );
    await assert.rejects(run.evaluate({ metrics: { error: (_, __, { tf }) => tf.ones([2, 1]) } }), {
      code: 'CONFIG',
      message: /metrics\.error returned a tensor \[2, 1\]; return a number or a scalar/,
    });
    await assert.rejects(run.evaluate({ metrics: { error: 'mse' as never } }), {
      code: 'CONFIG',
      message: /metrics\.error is .*, but must be a function, such as \(output, batch, \{ tf \}\) => /,
    });
    await assert.rejects(run.evaluate({ metrics: { error: () => baseDir.length } }), {
      message: /baseDir is not defined in this rank\. run\.evaluate's metrics\.error is sent to ranks/,
    });
    await run.dispose();
    const own = await job.train({
      model: ({ nn, tf }) => {
        class Net extends nn.Module {
          readonly a = new nn.Linear(2, 1);
          forward(x: Tensor) {
            return tf.mean(this.a.apply(x));
          }
        }
        return new Net();
      },
      data: { x: { values: new Float32Array(40), shape: [20, 2] }, validation: 0.2 },
    });
    await assert.rejects(own.evaluate({ metrics: { one: () => 1 } }), {
      code: 'CONFIG',
      message:
        /metrics need the model's output, but the forward of Net returns only the loss; return the output/,
    });
    assert.equal((await own.evaluate()).loss, (await own.evaluate()).loss);
    await own.dispose();
  });

  await context.test(
    "greedy samples of transformers' models equal those of transformers, sharded or not",
    async () => {
      const recorded = JSON.parse(
        readFileSync(join(testData('pretrained'), 'recorded.json'), 'utf8'),
      ) as Record<string, Recorded>;
      for (const name of ['gpt2', 'llama', 'qwen2']) {
        const { ids = [], greedy = [] } = recorded[name] ?? {};
        const places = [
          [1, 'NO_SHARD'],
          [4, 'FULL_SHARD'],
          [2, 'ZERO_1'],
        ] as const;
        // Each model under another strategy.
        for (const [ranks, strategy] of valuesHere(places, [['gpt2', 'llama', 'qwen2'].indexOf(name)])) {
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
      message: /topK is 0, but must be a whole number of at least 1, or null/,
    });
    await assert.rejects(run.sample('a', { temperature: -1 }), {
      code: 'CONFIG',
      message: /temperature is -1, but must be a number of at least 0/,
    });
    await assert.rejects(run.sample('a', { topP: 1 } as object), { code: 'CONFIG', message: /topP/ });
    await run.step();
    await run.dispose();
  });
});

import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import type { Job } from '../../../src/session/run/job';
import { testData } from '../../support/paths';
import { launchFor } from '../job-fixture';
import { STRATEGIES } from './own-model-cases';

/** The length of the text in characters, which are bytes. */
const LENGTH = 1_000_000;
/** A global batch that every world can share. */
const GLOBAL_BATCH = 12;
/** Batches have other rows, so the float32 means over them are rounded otherwise. */
const TOLERANCE = 1e-7;
/** After training steps, parameters differ by sums of gradients in another order. */
const TRAINED_TOLERANCE = 2e-5;
const PROMPTS = ['interface ', '/** The `'];

const baseDir = mkdtempSync(join(tmpdir(), 'shardlab-text-'));
after(() => rmSync(baseDir, { recursive: true, force: true }));
const source = readFileSync(require.resolve('typescript/lib/lib.dom.d.ts'), 'latin1');
writeFileSync(join(baseDir, 'my.txt'), source.replace(/[^\n -~]/g, '?').slice(0, LENGTH));
copyFileSync(testData('files', 'tokenizer.json'), join(baseDir, 'tokenizer.json'));

const DATA = { path: 'my.txt', tokenizer: './tokenizer.json', validation: 0.1 } as const;
const SHAPE = { layers: 2, dim: 16, heads: 2, vocab: 400, seq: 29 } as const;
/** Models, and the worlds in which they are compared with one process. */
const MODELS = {
  GPT: { model: { kind: 'gpt', ...SHAPE }, worlds: [1, 2, 3, 4] },
  Llama: { model: { kind: 'llama', ...SHAPE, kvHeads: 1, ffn: 40 }, worlds: [3] },
  'GPT with experts': { model: { kind: 'moe', ...SHAPE, experts: 4 }, worlds: [4] },
} as const;

/** What is compared between worlds and strategies. */
interface Found {
  readonly loss: number;
  readonly rows: number;
  readonly samples: readonly string[];
  readonly losses: readonly number[];
  readonly trained: number;
}

/** Loads the checkpoint, evaluates and samples; then trains some steps and evaluates again. */
async function found(
  job: Job,
  config: TrainConfigInput,
  place: { readonly world: number; readonly checkpoint: string },
): Promise<Found> {
  const { world, checkpoint } = place;
  const run = await job.train({ ...config, batch: GLOBAL_BATCH / world }, { ranks: world }).load(checkpoint);
  const { loss, rows } = await run.evaluate();
  const samples: string[] = [];
  for (const prompt of PROMPTS) samples.push(await run.sample(prompt, { tokens: 24, temperature: 0 }));
  await run.step(3);
  const { losses } = run;
  const { loss: trained } = await run.evaluate();
  await run.dispose();
  return { loss, rows, samples, losses, trained };
}

/** Returns every strategy of some worlds. */
function placesOf(worlds: readonly number[]) {
  return worlds.flatMap((world) =>
    STRATEGIES.map((strategy) => {
      const mesh = world === 4 ? { dpReplicate: 2, dpShard: 2 } : { dpReplicate: 1, dpShard: world };
      const parallel = { strategy, ...(strategy === 'HYBRID_SHARD' ? { mesh } : {}) };
      return { world, parallel, what: `${strategy} on ${world}` };
    }),
  );
}

for (const [name, { model, worlds }] of Object.entries(MODELS)) {
  test(`a ${name} on 1 MB of text evaluates and samples under every strategy and world as in one process`, async (context) => {
    const job = await launchFor(context, { ranks: 4, baseDir });
    const config: TrainConfigInput = { model, data: DATA, optimizer: { lr: 1e-2 } };
    const checkpoint = join(baseDir, name);
    const first = await job.train({ ...config, batch: GLOBAL_BATCH }, { ranks: 1 });
    await first.step(200);
    await first.save(checkpoint);
    await first.dispose();
    const expected = await found(job, config, { world: 1, checkpoint });
    context.diagnostic(
      `${expected.rows} rows, loss ${expected.loss}: ${JSON.stringify(expected.samples[0])}`,
    );
    for (const world of [2, 3, 4]) assert.notEqual(expected.rows % world, 0, 'ranks share the rows equally');
    let most = 0;
    for (const { world, parallel, what } of placesOf(worlds)) {
      const actual = await found(job, parseTrainConfig({ ...config, parallel }), { world, checkpoint });
      const difference = Math.abs(actual.loss - expected.loss);
      most = Math.max(most, difference);
      assert.ok(difference < TOLERANCE, `${what}: ${actual.loss}, ${expected.loss}`);
      assert.equal(actual.rows, expected.rows, what);
      assert.deepEqual(actual.samples, expected.samples, what);
      for (const [i, loss] of [...actual.losses, actual.trained].entries()) {
        const one = [...expected.losses, expected.trained][i] ?? Number.NaN;
        assert.ok(Math.abs(loss - one) < TRAINED_TOLERANCE, `${what}, trained: ${loss}, ${one}`);
      }
    }
    context.diagnostic(`losses differ by at most ${most}`);
  });
}

test("greedy samples of a Llama's folder equal those of transformers under every strategy and world", async (context) => {
  const job = await launchFor(context, { ranks: 4, baseDir });
  const folders = testData('pretrained');
  // Written by test/data/pretrained/record.py.
  const recorded = JSON.parse(readFileSync(join(folders, 'recorded.json'), 'utf8')) as {
    readonly llama: { readonly greedy: readonly number[] };
  };
  const { greedy } = recorded.llama;
  for (const { world, parallel, what } of placesOf([1, 2, 3, 4])) {
    const model = { from: join(folders, 'llama') };
    const run = await job.train({ model, data: 'synthetic', parallel }, { ranks: world });
    assert.deepEqual(await run.sample(greedy.slice(0, 4), { tokens: 12, temperature: 0 }), greedy, what);
    await run.dispose();
  }
});

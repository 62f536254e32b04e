import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tensor } from '@tensorflow/tfjs';
import type { RankScope } from '../../../src/launch/rank/scope';
import { plan } from '../../../src/session/notebook/plan';
import { launchFor, shareJob, temporaryFolder } from '../job-fixture';

const model = ({ nn }: RankScope) => new nn.Linear(2, 1);
const data = () => ({ x: [[1, 2]], y: [[1]] });
const loss = (output: Tensor, { y }: { readonly y: Tensor }, { tf }: RankScope): Tensor =>
  tf.losses.meanSquaredError(y, output);

declare const missing: unknown;

/** By what is wrong: the parts that differ from the right ones, and the error. */
type Wrong = Readonly<Record<string, readonly [parts: object, message: RegExp]>>;

const WRONG_MODELS: Wrong = {
  'a model that throws': [
    {
      model: () => {
        throw new Error('no weights today');
      },
    },
    /no weights today/,
  ],
  'a model that throws on one rank': [
    {
      model: ({ rank, nn }: RankScope) => {
        if (rank === 1) throw new Error('not here');
        return new nn.Linear(2, 1);
      },
    },
    /not here/,
  ],
  'an async model that rejects': [{ model: () => Promise.reject(new Error('no file')) }, /no file/],
  'no module': [{ model: () => undefined }, /model returned undefined; return a new module, as model: /],
  'sizes in place of a module': [{ model: () => ({ layers: 2 }) }, /job\.train: model takes a module/],
  'a class in place of a module': [{ model: ({ nn }: RankScope) => nn.Linear }, /call it with new/],
  'no parameters': [{ model: ({ nn }: RankScope) => new nn.ReLU() }, /ReLU has no parameters/],
  'a module of an earlier run': [
    {
      model: ({ nn }: RankScope) => {
        const cell = globalThis as { net?: unknown };
        cell.net ??= new nn.Linear(2, 1);
        return cell.net;
      },
    },
    /is in use already/,
  ],
  'a name of the notebook': [
    { model: () => missing },
    /missing is not defined in this rank\. job\.train's model is sent to ranks as source code/,
  ],
  'a class that no cell has declared': [
    { model: ({ Net }: { readonly Net: new () => unknown }) => new Net() },
    /the scope has no Net: names that a %%ranks cell declares exist only in the ranks in which the cell ran/,
  ],
  'no data': [{ data: undefined }, /a model of your own needs a function, as data: \(scope, index\)/],
  'a missing file': [{ model: './nowhere.ts#Net' }, /cannot find \.\/nowhere\.ts/],
  'a missing export': [
    { model: './net.ts#Nett' },
    /net\.ts has no function or class 'Nett'; it exports loss, net/,
  ],
  'one function of two parts': [{ data: { train: data } as never }, /takes two functions/],
  'no export': [{ model: './net.ts#' }, /name a file and its export, as '\.\/net\.ts#Net'/],
  'a loss by name': [{ loss: 'mse' }, /loss.*mse.*a function of job\.train/],
  'text without rows': [{ data: { path: './net.ts' } }, /needs the number of tokens per row/],
};

const WRONG_STEPS: Wrong = {
  'an output that is no loss': [
    {
      loss: undefined,
      data: () => ({
        x: [
          [1, 2],
          [3, 4],
        ],
      }),
    },
    /the model returned a tensor float32 \[2, 1\], which is no loss; give job\.train a loss/,
  ],
  'a loss that is no scalar': [
    {
      loss: (output: Tensor) => output,
      data: () => ({
        x: [
          [1, 2],
          [3, 4],
        ],
      }),
    },
    /loss returned a tensor float32 \[2, 1\]; return a float32 scalar/,
  ],
  'a loss that returns nothing': [{ loss: () => undefined }, /loss returned undefined/],
  'an async loss': [{ loss: () => Promise.resolve(1) }, /loss returned a promise \(forward and loss cannot/],
  'a loss that throws on one rank': [
    {
      loss: (output: Tensor, { y }: { readonly y: Tensor }, { tf, rank }: RankScope) => {
        if (rank === 1) throw new Error('no target');
        return tf.losses.meanSquaredError(y, output);
      },
    },
    /no target/,
  ],
  'a batch that is a tensor': [
    { data: ({ tf }: RankScope) => tf.ones([1, 2]) },
    /data returned a Tensor; return an object with x, as \{ x, y \}/,
  ],
  'a batch without x': [
    { data: () => ({ a: [1] }) },
    /data returned an object with the keys a; return an object/,
  ],
  'async data': [
    { data: () => Promise.resolve({ x: [[1, 2]] }) },
    /data returned a promise, but a step does not/,
  ],
  'rows of different lengths': [{ data: () => ({ x: [[1, 2], [3]] }) }, /data: x is no tensor/],
  'a forward with wrong shapes': [
    {
      model: ({ nn, tf }: RankScope) => {
        class Net extends nn.Module {
          readonly a = new nn.Linear(2, 3);
          forward(x: Tensor) {
            return tf.matMul(this.a.apply(x), x);
          }
        }
        return new Net();
      },
    },
    /the inner sizes .* must be equal.*\(in job\.train's model, line \d+ of the function\)/,
  ],
  'x of another width': [{ data: () => ({ x: [[1, 2, 3]], y: [[1]] }) }, /3/],
  'a tensor that was freed': [
    {
      data: ({ tf }: RankScope) => {
        const cell = globalThis as { X?: Tensor };
        cell.X ??= tf.ones([1, 2]);
        return { x: cell.X, y: [[1]] };
      },
    },
    /freed after an earlier step.*keep it: X \?\?= tf\.keep/s,
  ],
};

const shared = shareJob({ ranks: 2 });

test('a wrong model, loss or batch is an error that says what to do, and the job continues', async (context) => {
  const { path } = temporaryFolder(context);
  const net = 'export const net = ({ nn }: any) => new nn.Linear(2, 1);';
  const ownLoss = `export const loss = ${loss};`;
  writeFileSync(join(path, 'net.ts'), `${net}\n${ownLoss}\n`);
  const job = await launchFor(context, { ranks: 2, baseDir: path });
  const right = { model, data, loss };
  for (const [name, [parts, message]] of Object.entries(WRONG_MODELS)) {
    const train = async () => {
      await job.train({ ...right, ...parts } as object);
      await job.train({ ...right, ...parts } as object);
    };
    await assert.rejects(train, message, name);
  }
  for (const [name, [parts, message]] of Object.entries(WRONG_STEPS)) {
    const run = await job.train({ ...right, ...parts } as object);
    await assert.rejects(run.step(2), message, name);
    if (run.losses.length === 0) {
      const ended = /^this run has ended without a complete step, .*It ended with: /s;
      assert.throws(() => run.memory(), { code: 'CONFIG', message: ended }, name);
    }
    await run.dispose();
  }
  const fromFile = await job.train({ ...right, model: './net.ts#net', loss: './net.ts#loss' });
  await fromFile.step(2);
  const empty = await job.train({ ...right, data: { train: data, validation: () => undefined } });
  await assert.rejects(empty.evaluate(), /data\.validation returned no batch for index 0/);
  const validation = (_: RankScope, index: number) => (index === 2 ? undefined : { x: [[1, 2]], y: [[1]] });
  const gap = await job.train({ ...right, data: { train: data, validation } });
  await assert.rejects(gap.evaluate(), /returned a batch for index 3, but none for an earlier index/);
  const run = await job.train(right);
  await run.step(2);
  assert.deepEqual(fromFile.losses, run.losses);
  const { bytes } = (await job.on(0).run(({ engine }) => engine.memory))[0] ?? { bytes: 0 };
  await run.step(200);
  assert.equal((await job.on(0).run(({ engine }) => engine.memory))[0]?.bytes, bytes, 'steps leave tensors');
});

test('data that keeps its tensors and uses parts of them leaves nothing behind', async () => {
  const job = shared();
  const run = await job.train({
    model,
    data: ({ tf }, index) => {
      const cell = globalThis as { all?: Tensor };
      cell.all ??= tf.keep(tf.ones([100, 2]));
      const x = cell.all.slice([index % 50, 0], [4, 2]);
      return { x, y: tf.sum(x, 1, true), whole: cell.all, name: 'ones' };
    },
    loss: (output, { y, whole, name }, { tf }) =>
      tf.add(tf.losses.meanSquaredError(y, output), tf.mul(tf.mean(whole), name === 'ones' ? 0 : 1)),
  });
  const bytes = async () =>
    (await job.on('all').run(({ engine }) => engine.memory)).map((each) => each.bytes);
  await run.step(2);
  const before = await bytes();
  await run.step(200);
  assert.deepEqual(await bytes(), before);
});

test('a dry run and a plan run the functions on shapes', async (context) => {
  const job = await launchFor(context, { ranks: 2, blas: 'auto' });
  const config = { model, data, loss, parallel: { strategy: 'FULL_SHARD' } } as const;
  const run = await job.train(config);
  await run.step(3);
  const dry = plan(config, { gpus: 2 }, { count: true, ranks: 'all' });
  assert.deepEqual(
    dry.lastStep.map(({ memory }) => memory.peakBytes),
    run.records.ofStep(3).map(({ memory }) => memory.peakBytes),
  );
  assert.equal(dry.numParams, 3);
  assert.throws(
    () => plan({ ...config, model: './net.ts#net' }, { gpus: 2 }, { count: true }),
    /model or loss names a file, which only ranks load/,
  );
  const absent = ({ Net }: { readonly Net: new () => never }) => new Net();
  assert.throws(
    () => plan({ ...config, model: absent } as never, { on: 'A100-80G', gpus: 8 }),
    /the scope has no Net: .* in the notebook: declare Net in the function/,
  );
  assert.equal(plan(config, { on: 'A100-80G', gpus: 8 }).layout.model.params, 3);
});

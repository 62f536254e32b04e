import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { Tensor } from '../../../src/core/tf';
import type { LoaderData } from '../../../src/launch/rank/data-loader';
import type { RankScope } from '../../../src/launch/rank/scope';
import { launchFor, resultsOf, runCell, temporaryFolder, withTmpdir } from '../../session/job-fixture';
import { testData } from '../../support/paths';

const baseDir = mkdtempSync(join(tmpdir(), 'shardlab-loader-'));
after(() => rmSync(baseDir, { recursive: true, force: true }));
const source = readFileSync(require.resolve('typescript/lib/lib.es5.d.ts'), 'utf8');
writeFileSync(join(baseDir, 'my.txt'), source.slice(0, 1200));

const textModel = ({ nn }: RankScope) => {
  class Net extends nn.Module {
    readonly embedding = new nn.Embedding(400, 8);
    readonly head = new nn.Linear(8, 400);
    forward(ids: Tensor): Tensor {
      return this.head.apply(this.embedding.apply(ids));
    }
  }
  return new Net();
};

const imageModel = ({ nn }: RankScope) => {
  class Net extends nn.Module {
    readonly head = new nn.Linear(90, 2);
    forward(x: Tensor): Tensor {
      return this.head.apply(x.flatten(1));
    }
  }
  return new Net();
};

const lossOf = (output: Tensor, { y }: { readonly y: Tensor }, { nn }: RankScope): Tensor =>
  nn.functional.crossEntropy(output.reshape([y.size, -1]), y.flatten());

const CASES = {
  'a text with a tokenizer': {
    model: textModel,
    batch: 4,
    data: { path: 'my.txt', tokenizer: testData('files', 'tokenizer.json'), seq: 8, validation: 0.2 },
  },
  'images of folders': {
    model: imageModel,
    batch: 1,
    data: { path: testData('files', 'images'), size: [6, 5] },
  },
} satisfies Record<string, Pick<TrainConfigInput, 'data' | 'batch'> & { model: unknown }>;

test('a loader of files in cells', async (context) => {
  const temporary = temporaryFolder(context);
  const job = await withTmpdir(temporary.path, () => launchFor(context, { ranks: 2, baseDir }));

  for (const [name, { model, data, batch }] of Object.entries(CASES)) {
    await context.test(
      `a loop over ${name} has the losses of job.train, to the bit, over three epochs`,
      async () => {
        const loop = `{
        const loader = await dataLoader(${JSON.stringify(data)}, { batch: ${batch}, seed: 3 });
        const model = (${model})({ nn });
        model.manualSeed(3);
        DDP(model);
        const optimizer = optim.adamW(model, { lr: 1e-2 });
        globalThis.losses = [];
        for (let epoch = 0; epoch < 3; epoch++) {
          for (const { x, y } of loader) {
            const loss = (${lossOf})(model(x), { y }, { nn });
            loss.backward();
            optimizer.step();
            optimizer.zeroGrad();
            losses.push(dist.allReduce(loss, 'avg').dataSync()[0]);
          }
        }
        losses.length === 3 * loader.length
      }`;
        assert.deepEqual(resultsOf(await runCell(job, loop)), { 0: 'true', 1: 'true' });
        const found = await job.on('all').run(() => (globalThis as unknown as { losses: number[] }).losses);
        const run = await job.train({
          ...{
            model: model as typeof textModel,
            loss: lossOf,
            data: data as TrainConfigInput['data'],
            batch,
          },
          ...{
            seed: 3,
            clipNorm: null,
            optimizer: { kind: 'adamW', lr: 1e-2 },
            parallel: { strategy: 'NO_SHARD' },
          },
        });
        const steps = found[0]?.length ?? 0;
        await run.step(steps);
        assert.ok(steps >= 6 && new Set(run.losses).size === steps, `${steps} steps`);
        assert.deepEqual(found, [run.losses, run.losses]);
        await run.dispose();
      },
    );
  }

  await context.test(
    'ranks together read each row once per epoch, and each validation row once',
    async () => {
      const found = await job.on('all').run(async ({ dataLoader }) => {
        const x = Float32Array.from({ length: 13 }, (_, i) => i);
        const loader = await dataLoader({ x, y: x, validation: 0.4 }, { batch: 2 });
        const read = (batches: Iterable<{ x: Tensor; counted?: number }>): number[][] => {
          const values: number[][] = [];
          for (const { x, counted } of batches) values.push([...x.dataSync()].slice(0, counted));
          return values;
        };
        return {
          epochs: [read(loader), read(loader)],
          validation: read(loader.validation),
          numRows: loader.validation.numRows,
          length: loader.length,
        };
      });
      const sorted = (values: number[][]) => values.flat().sort((a, b) => a - b);
      assert.deepEqual(
        found.map(({ length, numRows }) => [length, numRows]),
        [
          [2, 5],
          [2, 5],
        ],
      );
      const trained = sorted(found.flatMap(({ epochs: [first = []] }) => first));
      const validated = sorted(found.flatMap(({ validation }) => validation));
      assert.equal(new Set(validated).size, 5);
      assert.deepEqual(
        sorted([trained, validated]),
        Array.from({ length: 13 }, (_, i) => i),
      );
      assert.notDeepEqual(found[0]?.epochs[0], found[0]?.epochs[1]);
      // Five rows: rank 1 has none left for its second batch.
      assert.deepEqual(
        found.map(({ validation }) => validation.map((batch) => batch.length)),
        [
          [2, 1],
          [2, 0],
        ],
      );
    },
  );

  await context.test(
    "the weighted validation loss of a sharded model is one process's, also of fewer rows than ranks",
    async () => {
      const X = Float32Array.from({ length: 20 }, (_, i) => Math.sin(i));
      for (const [validation, numRows] of [
        [0.1, 1],
        [0.3, 3],
      ] as const) {
        const data = { x: { values: X, shape: [10, 2] }, y: X.subarray(0, 10), validation };
        await job.put({ data });
        const ofRanks = await job.on('all').run(async (scope) => {
          const { nn, tf, dist, fullyShard, dataLoader } = scope;
          const { data } = scope as unknown as { data: LoaderData };
          const loader = await dataLoader(data, { batch: 1, seed: 3 });
          const model = fullyShard(new nn.Linear(2, 1).manualSeed(3));
          let sum = 0;
          let numBatches = 0;
          for (const { x, y, counted } of loader.validation) {
            const loss = tf.tidy(
              () => nn.functional.mseLoss(model.apply(x), y.reshape([-1, 1])).dataSync()[0],
            );
            sum += (loss ?? Number.NaN) * counted;
            numBatches++;
          }
          const [total = 0] = dist.allReduce(tf.scalar(sum), 'sum').dataSync();
          return [numBatches, loader.validation.numRows, total / loader.validation.numRows] as const;
        });
        const run = await job.train(
          {
            model: ({ nn }) => new nn.Linear(2, 1),
            loss: (output, { y }, { nn }) => nn.functional.mseLoss(output, y.reshape([-1, 1])),
            ...{ data, batch: 1, seed: 3 },
          },
          { ranks: 1 },
        );
        const { loss } = await run.evaluate();
        for (const [numBatches, rows, mean] of ofRanks) {
          assert.deepEqual([numBatches, rows], [Math.ceil(numRows / 2), numRows]);
          assert.ok(Math.abs(mean - loss) < 1e-5 * loss, `${mean}, ${loss}`);
        }
        await run.dispose();
      }
    },
  );

  await context.test(
    "a batch has the ledger's tag of batches, and is freed after each way out of the loop",
    async () => {
      const found = await job.on('all').run(async ({ dataLoader, engine }) => {
        const loader = await dataLoader({ path: 'my.txt', seq: 8 }, { batch: 2 });
        const before = engine.memory.bytes;
        const seen: Tensor[] = [];
        const causes = new Set<string>();
        const walk = (leave: (i: number) => boolean): void => {
          let i = 0;
          for (const { x, y } of loader) {
            if (seen.some((tensor) => !tensor.isDisposed)) throw new Error('the batch before is not freed');
            for (const tensor of [x, y]) causes.add(engine.tagOf(tensor).cause);
            seen.push(x, y);
            if (leave(i++)) break;
          }
        };
        walk(() => false);
        walk((i) => i === 1);
        try {
          walk(() => {
            throw new Error('left');
          });
        } catch {
          // The loop has ended.
        }
        const own = loader.batch(0);
        const isLive = !own.x.isDisposed;
        own.x.dispose();
        own.y.dispose();
        const isFreed = seen.every((tensor) => tensor.isDisposed);
        return [[...causes], isLive, isFreed, engine.memory.bytes - before, seen.length / 2 - loader.length];
      });
      assert.deepEqual(found, [
        [['batch'], true, true, 0, 3],
        [['batch'], true, true, 0, 3],
      ]);
    },
  );

  await context.test(
    'data that cannot be read are the same error on all ranks, and ranks can continue',
    async () => {
      const wrong: readonly (readonly [string, string, RegExp])[] = [
        ["'none.txt'", 'CONFIG', /\[rank 0\] data: there is no file or folder none\.txt in /],
        ["{ path: 'my.txt' }", 'CONFIG', /my\.txt is a text; give the number of tokens per row/],
        ["{ path: 'my.txt', sq: 8 }", 'CONFIG', /data\.sq: unknown key; did you mean "seq"\?/],
        ["'typescript'", 'CONFIG', /dataLoader reads files and arrays, not typescript; write dataLoader\(/],
        ['() => 1', 'CONFIG', /not a function; .* If a function of your own makes the batches, call it/],
        ["'my.txt', { batchSize: 2 }", 'CONFIG', /has no argument batchSize; choose one of batch, seed/],
        ["'my.txt', { batch: 0 }", 'CONFIG', /batch: /],
        [
          "{ path: 'my.txt', seq: 8 + rank }",
          'CONFIG',
          /rank 0 gives .*"seq":8.*, rank 1 gives .*"seq":9.*all ranks must/,
        ],
      ];
      for (const [given, code, message] of wrong) {
        await assert.rejects(runCell(job, `await dataLoader(${given})`), { code, message }, given);
      }
      await assert.rejects(runCell(job, "(await dataLoader({ path: 'my.txt', seq: 8 })).validation"), {
        code: 'CONFIG',
        message:
          /loader\.validation: these data have no rows that are never trained on; give them, as dataLoader\(/,
      });
      const alone = "if (rank === 0) await dataLoader({ path: 'my.txt', seq: 8 })";
      await assert.rejects(runCell(job, alone), {
        code: 'COLLECTIVE_MISSING',
        message: /let every rank of the group call dataLoader\(\), not rank 0 alone/,
      });
      assert.deepEqual(resultsOf(await runCell(job, 'rank')), { 0: '0', 1: '1' });
    },
  );

  await context.test("the files are deleted with the job's folder", async () => {
    const files = () =>
      readdirSync(temporary.path, { recursive: true, encoding: 'utf8' }).filter((name) => /data-/.test(name));
    assert.ok(files().length > 0);
    await job.shutdown();
    assert.deepEqual(files(), []);
  });
});

import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { Job } from '../../../src/session/run/job';
import { casesHere } from '../../support/cases';
import { testData } from '../../support/paths';
import { launchFor } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 400, seq: 8 } as const;

const baseDir = mkdtempSync(join(tmpdir(), 'shardlab-own-data-'));
after(() => rmSync(baseDir, { recursive: true, force: true }));
const source = readFileSync(require.resolve('typescript/lib/lib.es5.d.ts'), 'utf8');
const lines = source.split('\n').slice(0, 60);
writeFileSync(join(baseDir, 'my.txt'), lines.join('\n'));
writeFileSync(join(baseDir, 'my.jsonl'), lines.map((text) => `${JSON.stringify({ body: text })}\n`).join(''));
copyFileSync(testData('files', 'tokenizer.json'), join(baseDir, 'tokenizer.json'));

async function lossesOf(job: Job, config: TrainConfigInput, ranks: number, steps = 6): Promise<number[]> {
  const run = await job.train({ model: MODEL, ...config, batch: 4 / ranks }, { ranks });
  await run.step(steps);
  const { losses } = run;
  await run.dispose();
  return losses;
}

const DATA: Readonly<Record<string, TrainConfigInput['data']>> = {
  'a text file': './my.txt',
  'JSON lines with a tokenizer': {
    path: 'my.jsonl',
    text: 'body',
    tokenizer: './tokenizer.json',
    validation: 0.2,
  },
  'token ids': { tokens: Uint16Array.from({ length: 500 }, (_, i) => (i * 31) % 400) },
};

test('own data', async (context) => {
  const job = await launchFor(context, { ranks: 4, baseDir });

  await context.test(
    'one, two and four ranks train on the same rows, so their losses are equal',
    async () => {
      for (const [name, data] of Object.entries(casesHere(DATA, ['JSON lines with a tokenizer']))) {
        const alone = await lossesOf(job, { data }, 1);
        assert.equal(new Set(alone).size, alone.length);
        for (const [ranks, strategy] of [
          [2, 'NO_SHARD'],
          [4, 'FULL_SHARD'],
        ] as const) {
          const losses = await lossesOf(job, { data, parallel: { strategy } }, ranks);
          for (const [i, loss] of losses.entries()) {
            assert.ok(
              Math.abs(loss - (alone[i] ?? 0)) < 1e-5,
              `${name}, ${ranks} ranks, step ${i + 1}: ${loss}, ${alone[i]}`,
            );
          }
        }
      }
    },
  );

  await context.test(
    'a run that continues from a checkpoint has the losses of an undisturbed run, to the bit',
    async () => {
      // 60 lines are fewer rows than 40 steps read, so the position is in a later epoch.
      const config = {
        model: MODEL,
        data: { path: 'my.txt', validation: 0.5 },
        batch: 4,
        accumulation: 2,
      } as const;
      const undisturbed = await job.train(config);
      await undisturbed.step(12);
      const first = await job.train(config);
      await first.step(7);
      await first.save(join(baseDir, 'checkpoint'));
      const second = await job.train(config).load(join(baseDir, 'checkpoint'));
      await second.step(5);
      assert.deepEqual([...first.losses, ...second.losses.slice(-5)], undisturbed.losses);
      for (const run of [undisturbed, first, second]) await run.dispose();
    },
  );

  await context.test(
    'a run that continues with other data gives a warning that says what differs',
    async (step) => {
      const path = join(baseDir, 'checkpoint');
      copyFileSync(join(baseDir, 'my.txt'), join(baseDir, 'copy.txt'));
      const written = step.mock.method(process.stderr, 'write', () => true);
      const said: Record<string, string[]> = {};
      for (const [name, data] of Object.entries({
        'the same values': { path: 'copy.txt', validation: 0.5 },
        'a longer part to train on': { path: 'my.txt', validation: 0.25 },
        'a tokenizer': { path: 'my.txt', validation: 0.5, tokenizer: './tokenizer.json' },
        'other tokens': DATA['token ids'],
        'built-in data': 'synthetic',
      })) {
        const run = await job.train({ model: MODEL, data, batch: 4, accumulation: 2 }).load(path);
        await run.dispose();
        said[name] = written.mock.calls.flatMap(({ arguments: [text] }) => {
          return /has other data than the checkpoint: (.*?);/.exec(String(text))?.[1] ?? [];
        });
        written.mock.resetCalls();
      }
      const contents = ['my.txt has other contents or another tokenizer'];
      assert.deepEqual(said, {
        'the same values': [],
        'a longer part to train on': contents,
        'a tokenizer': contents,
        'other tokens': ['tokens [500] in place of my.txt'],
        'built-in data': ['synthetic in place of my.txt'],
      });
    },
  );

  await context.test('a model from a folder reads texts by the tokenizer in the folder', async () => {
    const from = join(baseDir, 'model');
    const made = await job.train({ model: { ...MODEL, kind: 'llama' }, data: 'synthetic' }, { ranks: 1 });
    await made.savePretrained(from);
    await made.dispose();
    copyFileSync(testData('files', 'tokenizer.json'), join(from, 'tokenizer.json'));
    const losses = (data: TrainConfigInput['data']) => lossesOf(job, { model: { from }, data }, 1, 2);
    assert.deepEqual(await losses('my.txt'), await losses({ path: 'my.txt', tokenizer: './tokenizer.json' }));
  });

  await context.test('resharding to other ranks continues with the data', async () => {
    const run = await job.train({
      model: MODEL,
      data: DATA['a text file'],
      parallel: { strategy: 'FULL_SHARD' },
    });
    await run.step(2);
    await run.reshard({ world: 2 });
    await run.reshard({ world: 4, strategy: 'ZERO_1' });
    await run.step(2);
    assert.ok(run.losses.every(Number.isFinite));
    await run.dispose();
  });

  await context.test('data that cannot be used are refused before ranks build a model', async () => {
    const wrong: readonly (readonly [TrainConfigInput, RegExp])[] = [
      [{ data: './mine.txt' }, /^data: there is no file or folder \.\/mine\.txt in /],
      [
        { data: { path: 'my.jsonl', text: 'bdy' } },
        /my\.jsonl, line 1 has no column 'bdy'; did you mean 'body'/,
      ],
      [
        { data: { path: 'my.txt', tokenizer: 'none.json' } },
        /data\.tokenizer: there is no file .*none\.json/,
      ],
      [
        { model: { ...MODEL, vocab: 300 }, data: { path: 'my.txt', tokenizer: '.' } },
        /tokenizer \. has 400 tokens, but the model's vocab is 300; give model\.vocab 400 or more/,
      ],
      [
        { model: { ...MODEL, seq: 100_000 }, data: 'my.txt' },
        /my\.txt has [\d]+ tokens, but a row has seq \+ 1 = 100001/,
      ],
      [{ model: { ...MODEL, vocab: 100 }, data: 'my.txt' }, /vocab 100 is too small for text as bytes/],
    ];
    for (const [config, message] of wrong) {
      await assert.rejects(
        async () => {
          await job.train({ model: MODEL, ...config });
        },
        { code: 'CONFIG', message },
      );
    }
  });
});

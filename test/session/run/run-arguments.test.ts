import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { launchFor, temporaryFolder } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 1, dim: 4, heads: 1, vocab: 8, seq: 2 } as const;
const CONFIG: TrainConfigInput = { model: MODEL, data: 'synthetic' };

test('unknown options of train, save and load, and files that are not checkpoints, are errors at once', async (context) => {
  const { path: folder } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 1 });
  const run = await job.train(CONFIG);
  const place = (name: string) => join(folder, name);
  writeFileSync(place('t5.pth'), 'PK\u0003\u0004');
  for (const name of ['pickles', 'both', 'pointers']) mkdirSync(place(name));
  writeFileSync(place('pickles/pytorch_model.bin'), 'PK\u0003\u0004');
  writeFileSync(place('both/training_args.bin'), 'PK\u0003\u0004');
  writeFileSync(place('pointers/model.safetensors'), 'version https://git-lfs.github.com/spec/v1\n');
  const empty = Buffer.from('\u0002\0\0\0\0\0\0\0{}');
  for (const name of ['one.safetensors', 'both/model.safetensors']) writeFileSync(place(name), empty);
  const parametersOnly = true;
  const cases: readonly [string, RegExp, () => Promise<unknown>][] = [
    [
      'CONFIG',
      /no argument world; choose one of ranks, init/,
      () => job.train(CONFIG, { world: 1 } as object),
    ],
    [
      'CONFIG',
      /a folder, but must be safetensors files; for a model in Hugging Face's format, use model: \{ from: folder \}/,
      () => job.train(CONFIG, { init: folder }),
    ],
    [
      'CONFIG',
      /stateDictType; choose one of type/,
      () => run.save(place('a'), { stateDictType: 'FULL' } as object),
    ],
    [
      'CONFIG',
      /dtype is "bf16", but must be 'F32' or 'BF16' or 'F16'/,
      () => run.save(place('a'), { dtype: 'bf16' as never }),
    ],
    ['CONFIG', /not an empty text/, () => run.save('')],
    [
      'CONFIG',
      /parameters_only is written parametersOnly/,
      () => run.load(place('a'), { parameters_only: true } as object),
    ],
    ['IO', /t5\.pth is a torch pickle, .* python -c/, () => run.load(place('t5.pth'))],
    ['IO', /pytorch_model\.bin is a torch pickle/, () => run.load(place('pickles'))],
    ['IO', /pytorch_model\.bin is a torch pickle/, () => run.load(place('pickles'), { parametersOnly })],
    ['IO', /Git-LFS pointer.*git lfs pull/, () => run.load(place('pointers'))],
    ['IO', /is a file, .* init: file/, () => run.load(place('one.safetensors'))],
    ['IO', /\/dev\/null is a device, not a regular file/, () => run.load('/dev/null')],
    ['IO', /has no trainer_state\.json/, () => run.load(place('both'))],
    ['SHAPE', /is missing/, () => run.load(place('both'), { parametersOnly })],
  ];
  for (const [code, message, work] of cases) await assert.rejects(work, { code, message }, String(message));
  await run.step(1);
});

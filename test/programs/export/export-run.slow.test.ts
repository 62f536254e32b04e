import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig } from '../../../src/config/train-config';
import { createBatches } from '../../../src/training/data/batches';
import { launchFor } from '../../session/job-fixture';
import { readSafetensors } from '../../support/safetensors';
import { GPT, testFolder } from './export-fixture';

test("run.export writes the run's current parameters and its next batches", async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const input = { model: GPT, batch: 2, steps: 4, data: 'synthetic', accumulation: 2 } as const;
  const run = await job.train({ ...input, schedule: { kind: 'linear' } });
  await run.step(1);
  const folder = testFolder(context);
  const [out, saved] = [join(folder, 'bundle'), join(folder, 'saved')];
  const report = await run.export({ to: 'torchrun', out, machines: 2, steps: 3 });
  await run.save(saved, { type: 'FULL_STATE_DICT' });
  assert.equal(report.world, 2);
  assert.match(report.notes.join(), /those after step 1; the states of adamW are not in the bundle/);
  const values = readSafetensors(join(out, 'model.safetensors'));
  const expected = readSafetensors(join(saved, 'model.safetensors'));
  for (const [name, { values: own }] of values) assert.deepEqual(own, expected.get(name)?.values, name);
  assert.ok(values.has('blocks.1.qkv.weight'));
  const file = readFileSync(join(out, 'data', 'tokens.npy'));
  const start = 10 + file.readUInt16LE(8);
  const { tokens } = createBatches(parseTrainConfig(input), { world: 2 }).batch(0, 2);
  assert.deepEqual(
    Array.from({ length: 34 }, (_, i) => file.readUInt16LE(start + 2 * i)),
    [...tokens],
  );
  assert.match(readFileSync(join(out, 'train.py'), 'utf8'), /FIRST_STEP = 1/);
  await assert.rejects(run.export({ to: 'torchrun', out }), /not an empty folder/);
  await assert.rejects(
    run.export({ to: 'torchrun', out: join(folder, 'b'), machines: 3 }),
    /not divisible by 3 machines/,
  );
});

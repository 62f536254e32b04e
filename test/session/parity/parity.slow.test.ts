import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { LENGTH_BYTES, parseHeader } from '../../../src/training/checkpoint/format/safetensors-header';
import { launchFor, temporaryFolder } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 2, dim: 32, heads: 4, vocab: 256, seq: 16 } as const;
const CONFIG: TrainConfigInput = { model: MODEL, data: 'synthetic', batch: 2, seed: 5 };
const WHOLE: TrainConfigInput = { ...CONFIG, parallel: { strategy: 'NO_SHARD' } };
/** The parameter of which one element is changed. */
const CHANGED = 'blocks.1.fc1.weight';

/** Adds to one element of a parameter in a safetensors file. */
function changeElement(file: string, name: string, index: number, by: number): void {
  const bytes = readFileSync(file);
  const end = LENGTH_BYTES + Number(bytes.readBigUInt64LE(0));
  const { tensors, dataStart } = parseHeader(bytes.toString('utf8', LENGTH_BYTES, end), bytes.length, file);
  const at = dataStart + (tensors.get(name)?.from ?? Number.NaN) + 4 * index;
  bytes.writeFloatLE(bytes.readFloatLE(at) + by, at);
  writeFileSync(file, bytes);
}

test('two runs are compared step by step', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const folder = join(temporaryFolder(context).path, 'saved');

  await context.test('strategies agree, and calls, bytes and memory are beside each other', async () => {
    const [sharded, whole] = [await job.train(CONFIG), await job.train(WHOLE)];
    const parity = await sharded.parity(whole, { steps: 2 });
    assert.equal(parity.first, null, parity.title);
    assert.ok(parity.isEqual);
    assert.match(parity.title, /^Losses, gradients and parameters of 2 steps /);
    assert.deepEqual([sharded.lastStep, whole.lastStep], [2, 2]);
    const [start, ...steps] = parity.steps.rows;
    assert.deepEqual([start?.step, start?.loss, start?.gradientDifference], [0, null, null]);
    assert.deepEqual(
      steps.map(({ step, loss, otherLoss }) => [step, loss, otherLoss]),
      [0, 1].map((i) => [i + 1, sharded.losses[i], whole.losses[i]]),
    );
    // Gradients were really compared: every parameter is trained.
    assert.ok(parity.parameters.rows.every(({ gradientRelative }) => Number(gradientRelative) < 1e-4));
    assert.equal(parity.parameters.rows.length, 2 + 2 * 12 + 2);
    const gathers = parity.comm.rows.find(({ cause, op }) => cause === 'param' && op === 'allGather');
    assert.ok(Number(gathers?.calls) > 0 && gathers?.otherCalls === 0);
    const optimizer = parity.memory.rows.find(({ cause }) => cause === 'optimizer');
    assert.equal(optimizer?.otherBytes, 2 * Number(optimizer?.bytes));
  });

  await context.test('a changed weight is named before any step', async () => {
    const run = await job.train(CONFIG);
    await run.save(folder, { type: 'FULL_STATE_DICT' });
    changeElement(join(folder, 'model.safetensors'), CHANGED, 7, 0.01);
    const other = await job.train(CONFIG, { init: join(folder, 'model.safetensors') });
    const { first, isEqual, title, parameters } = await run.parity(other, { steps: 1 });
    assert.equal(isEqual, false);
    assert.deepEqual([first?.step, first?.what], [0, 'initial parameter']);
    assert.deepEqual([first?.module, first?.parameter], ['blocks.1.fc1', CHANGED]);
    assert.ok(Math.abs((first?.absolute ?? 0) - 0.01) < 1e-6, String(first?.absolute));
    assert.match(title, /blocks\.1\.fc1\.weight/);
    const ofStep = parameters.rows.find(({ parameter }) => parameter === 'wte.weight');
    assert.ok(Number(ofStep?.gradientRelative) > 0, 'the changed weight changes other gradients');
  });

  await context.test(
    'rounded gradients are found in the first step, unless the tolerance allows them',
    async () => {
      const rounded: TrainConfigInput = { ...WHOLE, mixedPrecision: { reduceDtype: 'bfloat16' } };
      const compared = async (tolerance: number) => {
        const [run, other] = [await job.train(WHOLE), await job.train(rounded)];
        return run.parity(other, { steps: 1, tolerance });
      };
      const { first } = await compared(1e-4);
      assert.deepEqual([first?.step, first?.what], [1, 'gradient']);
      assert.equal((await compared(0.5)).isEqual, true);
    },
  );

  await context.test('runs that cannot agree are refused by name', async () => {
    const run = await job.train(CONFIG);
    const refused = async (
      config: TrainConfigInput,
      message: RegExp,
      steps = 0,
      ranks = 2,
    ): Promise<void> => {
      const other = await job.train(config, { ranks });
      if (steps > 0) await other.step(steps);
      await assert.rejects(run.parity(other), { code: 'CONFIG', message });
      await other.dispose();
    };
    await refused(
      { ...CONFIG, model: { ...MODEL, layers: 1 } },
      /model: \{.*layers: 2.*\} and \{.*layers: 1/,
    );
    await refused({ ...CONFIG, optimizer: { lr: 0.5 } }, /optimizer\.lr: 0\.001 and 0\.5/);
    await refused({ ...CONFIG, seed: 6 }, /seed: 5 and 6/);
    await refused(CONFIG, /ranks with batches of their own .*: 2 and 1/, 0, 1);
    await refused(CONFIG, /taken 0 steps and the other run 2/, 2);
    await assert.rejects(run.parity(run), { code: 'CONFIG', message: /the same run twice/ });
    await assert.rejects(run.parity({} as typeof run), { code: 'CONFIG', message: /takes another run/ });
    const strange = { tolerence: 1 } as object;
    await assert.rejects(run.parity(run, strange), { code: 'CONFIG', message: /tolerance/ });
    // What was refused has changed nothing.
    assert.equal(run.lastStep, 0);
  });
});

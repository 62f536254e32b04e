import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { buildModel, chooseTrained } from '../../src/nn/models/build-model';
import { launch } from '../../src/session/run/launch';
import { openFirstState } from '../../src/training/checkpoint/pretrained/open-pretrained';
import { LLAMA, largestDifference, launchTorch } from './torch-fixture';

const BOUND = 1e-4;
const BASE: TrainConfigInput = {
  ...{ model: LLAMA, batch: 2, optimizer: { lr: 1e-2 }, seed: 5 },
  lora: { r: 4, alpha: 16, targets: ['q_proj', 'down_proj'] },
};

/** The values of a saved model, by name. */
function valuesIn(folder: string): Map<string, Float32Array> {
  const config = parseTrainConfig(BASE);
  const model = buildModel(config);
  chooseTrained(model, config);
  const { state, close } = openFirstState(folder, modelShape(config), [...model.namedState().keys()]);
  const read = [...state].map(([name, entry]) => {
    assert.ok('source' in entry);
    const values = new Float32Array(entry.shape.reduce((product, extent) => product * extent, 1));
    entry.source.fill(0, values);
    return [name, values] as const;
  });
  close();
  return new Map(read);
}

test('adapters have the same initial values, only they train, and either engine continues', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-lora-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const here = await launch({ ranks: 2 });
  context.after(() => here.shutdown());
  const there = await launchTorch(context, { ranks: 2 });
  const config: TrainConfigInput = { ...BASE, parallel: { strategy: 'FULL_SHARD' } };
  const runs = [await here.train(config), await there.train(config)] as const;
  const saved = (name: string): string => join(folder, name);
  for (const [i, run] of runs.entries()) {
    await run.save(saved(`first-${i}`));
    await run.step(3);
    await run.save(saved(`then-${i}`));
    await run.step(4);
  }
  assert.equal(runs[0].numParams, runs[1].numParams);
  const [ours, theirs, trained] = ['first-0', 'first-1', 'then-1'].map((name) => valuesIn(saved(name)));
  assert.deepEqual(theirs, ours);
  const changed = [...(trained ?? [])].filter(
    ([name, values]) => values.join() !== theirs?.get(name)?.join(),
  );
  const adapters = [...(theirs ?? [])].map(([name]) => name).filter((name) => name.includes('.lora_'));
  assert.deepEqual(changed.map(([name]) => name).sort(), adapters.sort());
  assert.equal(adapters.length, 2 * 2 * LLAMA.layers);
  for (const [i, run] of runs.entries()) {
    const continued = await (i === 0 ? there : here).train({ ...BASE, parallel: { strategy: 'ZERO_1' } });
    await continued.load(saved(`then-${i}`));
    await continued.step(4);
    const difference = largestDifference(continued.losses.slice(-4), run.losses.slice(-4));
    assert.ok(difference <= BOUND, `${continued.losses}; ${run.losses}`);
  }
  await runs[1].savePretrained(saved('adapter'), { adapter: true });
  assert.ok(readdirSync(saved('adapter')).includes('adapter_model.safetensors'));
  await runs[1].reshard({ strategy: 'NO_SHARD' });
  for (const run of runs) await run.step(2);
  assert.ok(largestDifference(runs[0].losses, runs[1].losses) <= BOUND, `${runs[1].losses}`);
});

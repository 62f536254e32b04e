import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { ReshardChange } from '../../../src/session/run/reshard';
import type { Run } from '../../../src/session/run/run';
import { valuesHere } from '../../support/cases';
import { shareJob, temporaryFolder } from '../job-fixture';

const shared = shareJob({ ranks: 4 });

const MODEL = { kind: 'gpt', layers: 2, dim: 10, heads: 2, vocab: 257, seq: 7 } as const;
const CONFIG: TrainConfigInput = { model: MODEL, data: 'synthetic', batch: 2 };
/** Large enough for states of 8 bits. */
const LARGER = { ...MODEL, dim: 48, vocab: 512 } as const;
const HYBRID = { dpReplicate: 2, dpShard: 2 } as const;

/** One change after another; the whole tensors stay equal under every placement. */
const CHANGES: readonly ReshardChange[] = [
  { strategy: 'ZERO_1' },
  { world: 3 },
  { strategy: 'ZERO_2' },
  { world: 4, strategy: 'HYBRID_SHARD', mesh: HYBRID },
  { strategy: '_HYBRID_SHARD_ZERO2', mesh: HYBRID },
  { world: 1, strategy: 'NO_SHARD' },
  { world: 4, strategy: 'FULL_SHARD', wrap: 'linear' },
  { world: 2, wrap: 'root' },
  { strategy: 'SHARD_GRAD_OP', world: 3, wrap: { layerCls: ['Block'] } },
  { unitStrategies: [{ modules: 'blocks.*', strategy: 'FULL_SHARD' }] },
  { strategy: 'NO_SHARD', unitStrategies: [], world: 4 },
  { strategy: 'FULL_SHARD', reshardAfterForward: 2, wrap: 'blocks' },
];

/** The whole tensors of a run, in files. */
async function wholeState(run: Run, folder: string): Promise<Map<string, Buffer>> {
  await run.save(folder, { type: 'FULL_STATE_DICT' });
  const names = readdirSync(folder).filter((name) => name.endsWith('.safetensors'));
  const files = new Map(names.map((name) => [name, readFileSync(join(folder, name))]));
  rmSync(folder, { recursive: true });
  return files;
}

test('whole tensors of model and optimizer have the same bytes before and after each of many changes', async (context) => {
  const { path } = temporaryFolder(context);
  const job = shared();
  const run = await job.train(CONFIG, { ranks: 2 });
  for (const [i, change] of valuesHere(CHANGES, [0, 1, 3, 5, 6, 8, 9, 10, 11]).entries()) {
    await run.step(1);
    const before = await wholeState(run, join(path, 'before'));
    const report = await run.reshard(change);
    const after = await wholeState(run, join(path, 'after'));
    assert.ok(before.size >= 2, [...before.keys()].join());
    assert.deepEqual([...after.keys()], [...before.keys()]);
    for (const [name, bytes] of after)
      assert.ok(before.get(name)?.equals(bytes), `${name} after change ${i}`);
    assert.ok(report.comparedBytes >= report.bytes);
  }
  await run.step(1);
  assert.ok((run.losses.at(-1) ?? 0) < (run.losses[0] ?? 0), run.losses.join());
  await run.dispose();
});

test('losses continue after a change of strategy, whatever other settings are', async () => {
  const job = shared();
  const settings: readonly (TrainConfigInput & { readonly name: string; readonly within: number })[] = [
    { name: 'momentum', within: 1e-6, optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9 } },
    { name: '8 bit', within: 5e-3, optimizer: { kind: 'adamW8bit', blockSize: 64 }, model: LARGER },
    { name: 'delayed', within: 1e-6, optimizer: { delayedUpdate: true } },
    { name: 'schedule', within: 1e-6, schedule: { warmupSteps: 2, maxSteps: 8 } },
    { name: 'frozen', within: 1e-6, frozen: ['wpe'] },
    { name: 'optimizer on the host', within: 1e-6, offload: { optimizer: true } },
    { name: 'experts', within: 1e-6, model: { ...MODEL, kind: 'moe', experts: 3 } },
    { name: 'bf16', within: 5e-3, mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } },
    { name: 'accumulation', within: 1e-6, accumulation: 2 },
    { name: 'fp16', within: 5e-3, mixedPrecision: 'fp16' },
  ];
  for (const { name, within, ...more } of valuesHere(settings, [1, 5])) {
    const config = { ...CONFIG, ...more };
    const undisturbed = await job.train(config, { ranks: 2 });
    await undisturbed.step(4);
    const run = await job.train(config, { ranks: 2 });
    await run.step(2);
    await run.reshard({ strategy: 'SHARD_GRAD_OP' });
    await run.reshard({ world: 1 });
    await run.reshard({ world: 2 });
    await run.step(2);
    run.losses.forEach((loss, i) => {
      const expected = undisturbed.losses[i] ?? Number.NaN;
      assert.ok(Math.abs(loss - expected) <= within, `${name}: ${run.losses} beside ${undisturbed.losses}`);
    });
    await Promise.all([run.dispose(), undisturbed.dispose()]);
  }
});

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { inspect } from 'node:util';
import { registerDisplay } from '../../../src/cell/display';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { ShardlabError } from '../../../src/core/errors';
import { valuesHere } from '../../support/cases';
import { launchFor, launchForAll, temporaryFolder } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 2, dim: 10, heads: 2, vocab: 257, seq: 7 } as const;
const CONFIG: TrainConfigInput = { model: MODEL, data: 'synthetic', batch: 2 };

const shared = launchForAll({ ranks: 3 });

test('checkpoints of a run', async (context) => {
  const { path: folder, left } = temporaryFolder(context);
  const job = shared();

  await context.test(
    'are loaded by another job with another number of ranks, and training continues',
    async () => {
      const path = join(folder, 'ckpt');
      const run = await job.train(CONFIG, { ranks: 2 });
      await run.step(3);
      const saved = await run.save(path);
      assert.match(inspect(saved), /^step 3 saved: .*ckpt, [\d.]+ kB, copied in /);
      await run.reshard({ world: 3 });
      await run.step(2);
      const other = await launchFor(context, { ranks: 3 });
      const loaded = await other.train({ ...CONFIG, parallel: { strategy: 'SHARD_GRAD_OP' } }).load(path);
      assert.match(inspect(loaded), /, no step since step 3 was loaded: await run\.step\(20\)$/);
      await loaded.step(2);
      assert.deepEqual(loaded.losses, run.losses.slice(3));
      assert.deepEqual(
        loaded.results.map(({ step }) => step),
        [4, 5],
      );
      loaded.loss();
      loaded.memory();
      await other.shutdown();
      await run.dispose();
    },
  );

  await context.test('take a run back to its step at the save', async () => {
    const path = join(folder, 'back');
    const run = await job.train(CONFIG);
    await run.step(2);
    await run.save(path, { type: 'FULL_STATE_DICT' });
    await run.step(3);
    const before = run.losses;
    const loaded = await run.load(path);
    assert.match(inspect(loaded), /^step 2 loaded: /);
    assert.deepEqual(run.losses, before.slice(0, 2));
    await run.step(3);
    assert.deepEqual(run.losses, before);
    assert.ok([...run.records].every(({ step }, i) => step === Math.floor(i / 3) + 1));
    await run.dispose();
  });

  await context.test('are written while steps continue', async () => {
    const path = join(folder, 'async');
    const lines: string[] = [];
    const show = (bundle: Readonly<Record<string, unknown>>) => lines.push(String(bundle['text/plain']));
    const unregister = registerDisplay({ display: show, update: (_, bundle) => show(bundle), clear() {} });
    try {
      const run = await job.train(CONFIG);
      await run.step(2);
      const save = await run.save(path, { async: true });
      await run.step(2);
      await save.done;
      const expected = run.losses.slice(2);
      await run.load(path);
      await run.step(2);
      assert.deepEqual(run.losses.slice(2), expected);
      assert.ok(
        lines.some((line) => /^step 2 saved: /.test(line)),
        lines.join('\n'),
      );
      await run.dispose();
    } finally {
      unregister();
    }
    assert.deepEqual(
      left().filter((name) => name.startsWith('async')),
      ['async'],
    );
  });

  await context.test(
    'leave the run unchanged if they do not fit or are missing; a damaged block ends the run',
    async () => {
      const path = join(folder, 'ckpt');
      const run = await job.train({ ...CONFIG, model: { ...MODEL, dim: 12 } });
      await run.step(1);
      await assert.rejects(run.load(path), { code: 'SHAPE', message: /wte\.weight/ });
      await assert.rejects(run.load(join(folder, 'nothing')), { code: 'IO', message: /there is no folder/ });
      await assert.rejects(run.load(join(__filename, 'through')), {
        code: 'IO',
        message: /cannot be read \(ENOTDIR/,
      });
      await assert.rejects(run.load(folder), { code: 'IO', message: /has no trainer_state\.json/ });
      await assert.rejects(run.save(''), { code: 'CONFIG' });
      await run.step(1);
      const good = join(folder, 'good');
      await run.save(good);
      const bad = join(folder, 'back');
      const other = await job.train(CONFIG);
      const files = readdirSync(bad).filter((name) => /^model.*\.safetensors$/.test(name));
      assert.ok(files.length > 0);
      const whole = files.map((file) => readFileSync(join(bad, file)));
      for (const file of files) writeFileSync(join(bad, file), 'nonsense');
      await assert.rejects(other.load(bad), { code: 'IO' });
      const state = readFileSync(join(bad, 'trainer_state.json'), 'utf8');
      for (const text of ['', '{}', JSON.stringify({ ...JSON.parse(state), trainer: {} })]) {
        writeFileSync(join(bad, 'trainer_state.json'), text);
        for (const [i, file] of files.entries()) writeFileSync(join(bad, file), whole[i] ?? '');
        await assert.rejects(other.load(bad), ShardlabError, `${text}`);
      }
      await other.step();
      writeFileSync(join(bad, 'trainer_state.json'), state);
      for (const [i, file] of files.entries()) {
        const damaged = Buffer.from(whole[i] ?? '');
        damaged[damaged.length - 1] = (damaged.at(-1) ?? 0) ^ 1;
        writeFileSync(join(bad, file), damaged);
      }
      await assert.rejects(other.load(bad), { code: 'IO' });
      await assert.rejects(other.step(), { code: 'CLOSED', message: /broke off while it loaded/ });
      await Promise.all([run.dispose(), other.dispose()]);
    },
  );

  await context.test(
    'stay unchanged if a save is interrupted, and no files are left beside them',
    async () => {
      const path = join(folder, 'cut');
      const run = await job.train({ ...CONFIG, model: { ...MODEL, layers: 4, dim: 96 } });
      await run.step(1);
      await run.save(path);
      await run.step(1);
      let lastSaved = 1;
      let numInterrupted = 0;
      for (const delay of valuesHere([0, 1, 2, 4, 8, 16], [0, 2, 4])) {
        const before = run.lastStep;
        const saving = run.save(path).then(
          () => 'saved',
          (error: unknown) => (error instanceof ShardlabError ? error.code : String(error)),
        );
        if (delay > 0) await setTimeout(delay);
        await job.interrupt();
        const end = await saving;
        assert.ok(end === 'saved' || end === 'INTERRUPTED', end);
        if (end === 'INTERRUPTED') numInterrupted++;
        // The others notice the end from files, apart from the call.
        while (left().filter((name) => name.startsWith('cut')).length > 1) await setTimeout(5);
        if (end === 'saved') lastSaved = before;
        // Ranks that had copied everything before the interrupt continue to the end of the save.
        const { step } = await run.load(path);
        assert.ok(step === lastSaved || step === before, `step ${step}`);
        lastSaved = step ?? 0;
        await run.step(1);
      }
      assert.ok(numInterrupted > 0, 'no save was interrupted');
      await run.save(path);
      assert.equal((await run.load(path)).step, run.lastStep);
      await run.dispose();
    },
  );

  await context.test('are named with the call that loads them when a run breaks', async () => {
    const path = join(folder, 'again');
    const run = await job.train(CONFIG);
    await run.step(1);
    await run.save(path);
    const stepping = run.step(100_000);
    const failed = assert.rejects(stepping, { code: 'RANK_DIED' });
    while (run.losses.length < 3) await new Promise((resolve) => setImmediate(resolve));
    await job.kill(1);
    await failed;
    await assert.rejects(run.step(), {
      code: 'CLOSED',
      message: /broke off within step \d+; await job\.heal\(\) continues it from '.*again'/,
    });
  });
});

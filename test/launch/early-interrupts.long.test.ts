import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { textData } from '../session/interrupts';
import { HANG_MS, launchFor, temporaryFolder } from '../session/job-fixture';

const TINY = { kind: 'gpt', layers: 1, dim: 8, heads: 2, vocab: 256, seq: 8 } as const;
const BY_CODE = { code: 'INTERRUPTED' } as const;

/** An interrupt that is lost leaves steps that do not end. */
const LIMIT = { timeout: 4 * HANG_MS };

/** Moments at which ranks have not got a call's first work yet. */
const MOMENTS = {
  'at once': () => undefined,
  'after a microtask': () => Promise.resolve(),
};

test(
  'an interrupt before ranks have begun a call ends the call, and the run is as before',
  LIMIT,
  async (context) => {
    const { path } = temporaryFolder(context);
    const job = await launchFor(context, { ranks: 2 });
    const config = { model: TINY, data: textData(path) };
    const run = await job.train(config);
    await run.step(2);
    await run.save(join(path, 'saved'));
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      'job.on().run': () =>
        job.on('all').run(() => {
          while (true) {}
        }),
      'a cell': () => job.runCell({ js: 'while (true) {}', cell: 1, selection: 'all' }, () => undefined),
      'job.put': () => job.put({ kept: 1 }),
      'job.train': () => job.train({ ...config, seed: 3 }),
      'job.train of one rank': () => job.train(config, { ranks: 1 }),
      'run.step': () => run.step(100_000),
      'run.step after a change of the rate': () => {
        run.lr = 1e-3;
        return run.step(100_000);
      },
      'run.step with evaluations': () => run.step(100_000, { evalSteps: 1 }),
      'run.save': () => run.save(join(path, 'never')),
      'run.load': () => run.load(join(path, 'saved')),
      'run.evaluate': () => run.evaluate(),
      'run.sample': () => run.sample('the '),
      'run.reshard': () => run.reshard({ strategy: 'FULL_SHARD' }),
    };
    for (const [name, call] of Object.entries(calls)) {
      for (const [when, wait] of Object.entries(MOMENTS)) {
        await context.test(`${name}, ${when}`, async () => {
          const ended = assert.rejects(call(), BY_CODE);
          await wait();
          await job.interrupt();
          await ended;
          assert.equal(run.lastStep, 2);
        });
      }
    }
    const twin = await job.train(config);
    await twin.step(2);
    twin.lr = 1e-3;
    await twin.step(2);
    await run.step(2);
    assert.deepEqual(run.losses, twin.losses);
  },
);

test(
  'steps that an interrupt reaches in their first moments end, and the run continues',
  LIMIT,
  async (context) => {
    const job = await launchFor(context, { ranks: 2 });
    const run = await job.train({ model: TINY });
    for (let turns = 0; turns < 4; turns++) {
      const ended = assert.rejects(run.step(100_000), BY_CODE);
      for (let turn = 0; turn < turns; turn++) await setImmediate();
      await job.interrupt();
      await ended;
      const { lastStep } = run;
      await run.step(1);
      assert.equal(run.lastStep, lastStep + 1);
    }
  },
);

test(
  'a call that waits behind steps does not run after an interrupt of the steps',
  LIMIT,
  async (context) => {
    const job = await launchFor(context, { ranks: 2 });
    const run = await job.train({ model: TINY });
    const steps = assert.rejects(run.step(100_000), BY_CODE);
    while (run.lastStep === 0) await setImmediate();
    const waits = assert.rejects(
      job.on(0).run(() => 1),
      BY_CODE,
    );
    await job.interrupt();
    await Promise.all([steps, waits]);
    await run.step(1);
  },
);

test('a save that follows an interrupted save is not refused', LIMIT, async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train({ model: TINY });
  await run.step(1);
  for (let i = 0; i < 12; i++) {
    const ended = run.save(join(path, 'saved')).then(
      () => undefined,
      (error: unknown) => assert.equal((error as { code?: string }).code, 'INTERRUPTED', String(error)),
    );
    await delay(i / 2);
    await job.interrupt();
    await ended;
    await run.save(join(path, 'saved'));
  }
  assert.deepEqual(readdirSync(path), ['saved']);
});

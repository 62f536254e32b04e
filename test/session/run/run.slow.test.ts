import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { registerDisplay } from '../../../src/cell/display';
import type { MimeBundle } from '../../../src/cell/mime';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { ENDLESS, launchFor, launchForAll, printed, resultsOf, runCell } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;

function config(
  strategy: 'NO_SHARD' | 'FULL_SHARD' | 'SHARD_GRAD_OP',
  extra: TrainConfigInput = {},
): TrainConfigInput {
  return { model: MODEL, data: 'synthetic', parallel: { strategy }, ...extra };
}

/** The last test of this file kills one of its ranks. */
const shared = launchForAll({ ranks: 2 });

test('runs of a job', async (context) => {
  const job = shared();

  await context.test(
    'all strategies give the same losses, and a run has losses, ledgers and figures',
    async () => {
      const losses: number[][] = [];
      for (const strategy of ['NO_SHARD', 'FULL_SHARD', 'SHARD_GRAD_OP'] as const) {
        const run = await job.train(config(strategy));
        assert.match(
          inspect(run),
          new RegExp(`^${strategy} on 2 ranks, [\\d,]+ parameters, no step yet: await`),
        );
        const summary = await run.step(4);
        assert.equal(summary.numSteps, 4);
        assert.match(String(summary), /^step 4: loss \d\.\d+ → \d\.\d+, [\d,]+ tokens\/s/);
        assert.deepEqual(
          [...run.records].map(({ step, rank }) => [step, rank]),
          [1, 2, 3, 4].flatMap((step) => [
            [step, 0],
            [step, 1],
          ]),
        );
        assert.ok(run.numParams > 1000);
        for (const figure of [
          run.memory(),
          run.memory({ over: 'time', rank: 1 }),
          run.comm(),
          run.timeline(),
          run.loss(),
        ]) {
          assert.ok(figure.title.length > 0);
        }
        assert.deepEqual(
          run.processes().rows.map(({ rank, rssBytes }) => [rank, Number(rssBytes) > 50e6]),
          [
            [0, true],
            [1, true],
          ],
        );
        for (const wrong of [{ over: 'tme' as never }, { rank: 2 }, { step: 5 }]) {
          assert.throws(() => run.memory(wrong), { code: 'CONFIG', message: /'ranks'|ranks 0, 1|1 to 4/ });
        }
        assert.match(inspect(run), /, 4 steps: loss \d\.\d{4} → \d\.\d{4}$/);
        losses.push(run.losses);
        await run.dispose();
        await assert.rejects(run.step(), { code: 'CLOSED', message: /job\.train/ });
      }
      const [first = []] = losses;
      for (const other of losses) {
        for (const [i, loss] of other.entries()) assert.ok(Math.abs(loss - (first[i] ?? 0)) < 1e-4);
      }
    },
  );

  await context.test(
    'an interrupt ends step() after a whole step, and the run continues as if undisturbed',
    async () => {
      const undisturbed = await job.train(config('FULL_SHARD'));
      const run = await job.train(config('FULL_SHARD'));
      const stepping = run.step(100_000);
      const failed = assert.rejects(stepping, { code: 'INTERRUPTED', message: /the run is intact/ });
      while (run.losses.length < 3) await new Promise((resolve) => setImmediate(resolve));
      await job.interrupt();
      await failed;
      await run.step(2);
      await undisturbed.step(run.losses.length);
      assert.deepEqual(run.losses, undisturbed.losses);
      await Promise.all([run.dispose(), undisturbed.dispose()]);
    },
  );

  await context.test(
    'an interrupt of a run and of another run that waits for the ranks leaves both runs intact',
    async () => {
      const [first, second] = [await job.train(config('FULL_SHARD')), await job.train(config('NO_SHARD'))];
      const intact = { code: 'INTERRUPTED', message: /the run is intact/ };
      const failed = [first, second].map((run) => assert.rejects(run.step(100_000), intact));
      while (first.losses.length < 3) await new Promise((resolve) => setImmediate(resolve));
      await job.interrupt();
      await Promise.all(failed);
      assert.deepEqual(second.losses, []);
      for (const run of [first, second]) await run.step(2);
      await Promise.all([first.dispose(), second.dispose()]);
    },
  );

  await context.test(
    'an interrupt ends a run after a whole step, and also the calls of other ranks',
    async () => {
      const run = await job.train(config('NO_SHARD'), { ranks: 1 });
      const failed = assert.rejects(run.step(100_000), { code: 'INTERRUPTED', message: /the run is intact/ });
      const other = assert.rejects(
        job.on(1).run(() => new Promise(() => undefined)),
        { code: 'INTERRUPTED' },
      );
      while (run.losses.length < 3) await new Promise((resolve) => setImmediate(resolve));
      await job.interrupt();
      await Promise.all([failed, other]);
      await run.step(2);
      await run.dispose();
    },
  );

  await context.test('an interrupt of a cell for which a run waits leaves the run intact', async () => {
    const run = await job.train(config('FULL_SHARD'));
    const { seen, ended } = printed(job, ENDLESS['a busy loop'], 'running');
    await seen;
    const failed = assert.rejects(run.step(2), { code: 'INTERRUPTED' });
    await job.interrupt();
    await Promise.all([failed, ended]);
    await run.step(2);
    await run.dispose();
  });

  await context.test(
    'wrong configs and numbers of steps are refused before they reach the ranks',
    async () => {
      await assert.rejects(job.train({ modle: 'tiny' } as TrainConfigInput), {
        code: 'CONFIG',
        message: /model/,
      });
      const run = await job.train(config('NO_SHARD'));
      assert.throws(() => run.memory(), { code: 'CONFIG', message: /no step yet/ });
      for (const numSteps of [0, 1.5, -1]) await assert.rejects(run.step(numSteps), { code: 'CONFIG' });
      const first = run.step(2);
      await assert.rejects(run.step(), { code: 'CONFIG', message: /already stepping/ });
      await first;
      await run.dispose();
    },
  );

  await context.test('a missing file of initial parameters is named in the error', async () => {
    await assert.rejects(
      job.train(config('NO_SHARD'), { init: '/nonexistent.safetensors' }),
      /nonexistent\.safetensors/,
    );
  });

  await context.test(
    'loss and speed are shown during a run in one display, which becomes one line at the end, or the whole figure',
    async () => {
      const shown: { readonly how: string; readonly bundle: MimeBundle }[] = [];
      const unregister = registerDisplay({
        display: (bundle, options) =>
          shown.push({ how: `display ${options?.displayId?.slice(0, 12)}`, bundle }),
        update: (id, bundle) => shown.push({ how: `update ${id.slice(0, 12)}`, bundle }),
        clear: () => {},
      });
      const run = await job.train(config('NO_SHARD'));
      const summary = await run.step(30, { curve: true });
      const kept = shown.splice(0);
      await run.step(6).finally(unregister);
      assert.deepEqual(Object.keys(shown.at(-1)?.bundle ?? {}), ['text/plain']);
      assert.match(String(shown.at(-1)?.bundle['text/plain']), /^step 36\/36 +loss [^\n]*$/);
      const [first, last] = [kept[0], kept.at(-1)];
      assert.equal(first?.how, 'display shardlab-run');
      assert.match(String(first?.bundle['text/plain']), /^step 1\/30 +loss \d/);
      assert.equal(last?.how, 'update shardlab-run');
      assert.match(
        String(last?.bundle['text/plain']),
        /^step 30\/30 +loss .*tokens\/s.*\nNO_SHARD.* · The loss /,
      );
      const speed = `${Math.round(summary.tokensPerSecond).toLocaleString('en-US')} tokens/s`;
      assert.ok(String(summary).includes(speed));
      assert.ok(String(last?.bundle['text/plain']).includes(speed), "the figure's speed is the summary's");
      assert.deepEqual(Object.keys(last?.bundle ?? {}), ['text/html', 'image/png', 'text/plain']);
      assert.equal(kept.filter(({ how }) => how.startsWith('display')).length, 1);
      assert.equal(kept.filter(({ bundle }) => 'image/png' in bundle).length, 1);
      await run.dispose();
    },
  );

  await context.test("titles begin with the run's name, which the user may set", async () => {
    const [run, next] = [await job.train(config('FULL_SHARD')), await job.train(config('FULL_SHARD'))];
    await run.step(2);
    const { name } = run;
    assert.match(name, /^FULL_SHARD(, run \d+)?$/);
    assert.match(next.name, /^FULL_SHARD, run \d+$/);
    assert.ok(run.loss().title.startsWith(`${name} · The loss `), run.loss().title);
    run.name = 'mine';
    assert.match(run.memory().title, /^mine · /);
    assert.throws(
      () => {
        run.name = 3 as never; // what JavaScript's callers may pass
      },
      { code: 'CONFIG', message: /run\.name/ },
    );
    await run.dispose();
    await next.dispose();
  });

  await context.test('ranks run cells between the steps of a run', async () => {
    const run = await job.train(config('FULL_SHARD'));
    await runCell(job, 'let total = tf.scalar(rank); dist.allReduce(total)', 5);
    await run.step(1);
    assert.deepEqual(resultsOf(await runCell(job, 'total.arraySync()', 6)), { 0: '1', 1: '1' });
    await run.dispose();
  });
});

test('a model beyond the memory limit is a typed error that names the held memory, and the job still works', async (context) => {
  const job = await launchFor(context, { ranks: 2, memoryLimit: 300e3 });
  // With this number of tokens, no settings are tried after the error; memory-advice.slow tries them.
  const large = job.train(config('NO_SHARD', { model: { ...MODEL, dim: 256 }, batch: 1024 }));
  await assert.rejects(
    large.then((run) => run.step(1)),
    // From the rank that reaches its limit first.
    {
      code: 'OUT_OF_MEMORY',
      message: /^\[(rank [01]\/2|ranks 0-1 of 2)\] .* are held and the memoryLimit is 300 kB\. Held: /,
    },
  );
  assert.deepEqual(await job.on('all').run(({ rank }) => rank), [0, 1]);
});

test('a rank that is killed during training ends the step with RANK_DIED, and the run says so', async () => {
  const job = shared();
  const run = await job.train(config('FULL_SHARD'));
  const failed = assert.rejects(run.step(100_000), {
    code: 'RANK_DIED',
    message: /rank 1's process ended \(SIGKILL\)/,
  });
  while (run.losses.length < 2) await new Promise((resolve) => setImmediate(resolve));
  await job.kill(1);
  await failed;
  await assert.rejects(run.step(), { code: 'CLOSED', message: /broke off within step \d+.*SIGKILL/ });
  assert.ok(run.losses.length >= 2);
  run.memory();
});

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ShardlabError } from '../../../src/core/errors';
import type { Job } from '../../../src/session/run/job';
import type { LogRow } from '../../../src/session/run/log-file';
import { checkLoopOptions, type LoopOptions } from '../../../src/session/run/loop-options';
import type { Run } from '../../../src/session/run/run';
import { launchFor, temporaryFolder } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;
const baseDir = mkdtempSync(join(tmpdir(), 'shardlab-loop-'));
after(() => rmSync(baseDir, { recursive: true, force: true }));
const source = readFileSync(require.resolve('typescript/lib/lib.es5.d.ts'), 'utf8');
writeFileSync(join(baseDir, 'my.txt'), source.slice(0, 3000));

function trained(job: Job, lr = 1e-3): Promise<Run> {
  const data = { path: 'my.txt', validation: 0.15 };
  return job.train({ model: MODEL, data, batch: 4, optimizer: { lr }, parallel: { strategy: 'FULL_SHARD' } });
}

/** The error that `work` throws. */
async function thrownBy(work: () => unknown): Promise<ShardlabError> {
  try {
    await work();
  } catch (error) {
    assert.ok(error instanceof ShardlabError, String(error));
    return error;
  }
  throw new Error('it did not fail');
}

test('the training loop of a run', async (context) => {
  const { path: folder } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 2, baseDir });
  const plain = await trained(job);
  await plain.step(12);
  const place = (name: string): string => join(folder, name);

  await context.test('evaluations, saves, callbacks and logs change no loss', async () => {
    const run = await trained(job);
    const heard: string[] = [];
    const rows: LogRow[] = [];
    run.addCallback({
      onStepEnd: async ({ step }, given) => {
        assert.equal(given, run);
        heard.push(`step ${step}`);
        if (step === 3) await given.sample('a', { tokens: 2 });
      },
      onEvaluate: ({ step }) => heard.push(`evaluation ${step}`),
      onSave: ({ step }) => heard.push(`save ${step}`),
    });
    run.log('jsonl', place('log.jsonl'));
    run.log(async (row) => void rows.push(row));
    const outputDir = place('out');
    const summary = await run.step(12, { evalSteps: 2, saveSteps: 4, outputDir, saveTotalLimit: 2 });
    assert.deepEqual(run.losses, plain.losses);
    assert.equal(summary.numSteps, 12);
    assert.equal(summary.endedEarly, null);
    const expected = Array.from({ length: 12 }, (_, i) => i + 1).flatMap((step) => [
      `step ${step}`,
      ...(step % 2 === 0 ? [`evaluation ${step}`] : []),
      ...(step % 4 === 0 ? [`save ${step}`] : []),
    ]);
    assert.deepEqual(heard, expected);
    const lines = readFileSync(place('log.jsonl'), 'utf8').trimEnd().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      rows,
    );
    const steps = rows.flatMap((row) => (row.kind === 'step' ? [row] : []));
    assert.deepEqual(
      steps.map(({ loss }) => loss),
      plain.losses,
    );
    for (const { peakBytes = 0, tokensPerSecond, gradNorm, lr } of steps) {
      assert.ok(peakBytes > 1000 && tokensPerSecond > 0 && gradNorm > 0 && lr === 1e-3);
    }
    const evaluations = rows.flatMap((row) =>
      row.kind === 'evaluation' ? [{ step: row.step, loss: row.evalLoss }] : [],
    );
    assert.deepEqual(run.evaluations, evaluations);
    assert.deepEqual(
      evaluations.map(({ step }) => step),
      [2, 4, 6, 8, 10, 12],
    );
    const figure = run.loss();
    assert.match(figure.title, /^The loss is \d\.\d{3} after 12 steps, the validation loss \d\.\d{3}$/);
    assert.deepEqual(figure.data[1]?.x, [2, 4, 6, 8, 10, 12]);
    // The loss of random tokens falls, so the newest checkpoints are the best.
    assert.deepEqual(readdirSync(outputDir).sort(), ['checkpoint-12', 'checkpoint-8']);
    const warned = (options: LoopOptions) =>
      checkLoopOptions('run.step', options, 5, { lastStep: 9, data: undefined });
    assert.deepEqual(warned({ saveSteps: 10, outputDir: place('none') }), []);
    const [unused = '', later = '', ...more] = warned({ saveSteps: 20, outputDir });
    assert.deepEqual(more, []);
    assert.equal(
      unused,
      'run.step: saveSteps 20 has no effect, because no step from 10 to 14 is a multiple of 20',
    );
    assert.match(
      later,
      /out has checkpoint-12, but this run is at step 9; .* await run\.load\('.*out\/checkpoint-12'\)$/,
    );
    const resumed = await trained(job);
    await resumed.load(join(outputDir, 'checkpoint-8'));
    resumed.log('jsonl', place('log.jsonl'));
    assert.deepEqual(resumed.evaluations, evaluations.slice(0, 4));
    await resumed.step(4);
    assert.deepEqual(resumed.losses, plain.losses.slice(8));
    const resumedRows = readFileSync(place('log.jsonl'), 'utf8').trimEnd().split('\n');
    const logged = resumedRows
      .map((line) => JSON.parse(line) as LogRow)
      .filter(({ kind }) => kind === 'step');
    assert.deepEqual(
      logged.map(({ step }) => step),
      steps.map(({ step }) => step),
    );
    await Promise.all([run.dispose(), resumed.dispose()]);
  });

  await context.test(
    'for await gives each step, and ends at break, at its number, at an interrupt, and at an early stop',
    async () => {
      const run = await trained(job);
      const seen: number[] = [];
      for await (const { step, loss } of run.steps()) {
        assert.equal(loss, plain.losses[step - 1]);
        seen.push(step);
        if (step === 2) await run.evaluate();
        if (step === 3) break;
      }
      for await (const { step } of run.steps(3)) seen.push(step);
      assert.deepEqual(seen, [1, 2, 3, 4, 5, 6]);
      const interrupted = {
        code: 'INTERRUPTED',
        message: /^run\.steps was interrupted after 2 steps; the run is intact/,
      };
      await assert.rejects(async () => {
        for await (const { step } of run.steps()) if (step === 8) await job.interrupt();
      }, interrupted);
      const remove = run.addCallback({ onEvaluate: () => 'stop' });
      for await (const { step } of run.steps()) if (step === 10) await run.evaluate();
      remove();
      await run.step(2);
      assert.deepEqual(run.losses, plain.losses);
      assert.throws(() => run.steps(0), { code: 'CONFIG', message: /steps\(0\) is not a number of steps/ });
      await run.dispose();
    },
  );

  await context.test(
    'an interrupt ends a step between two evaluations, and a callback that never ends',
    async () => {
      const run = await trained(job);
      let numSteps = 0;
      const remove = run.addCallback({
        onStepEnd: () => new Promise((resolve) => (++numSteps < 3 ? resolve(0) : void job.interrupt())),
      });
      const error = await thrownBy(() => run.step(100, { evalSteps: 2 }));
      assert.equal(error.code, 'INTERRUPTED');
      assert.match(
        error.message,
        /^run\.step was interrupted after 3 of 100 steps; the run is intact: step\(\) continues from step 3$/,
      );
      remove();
      await run.step(9);
      assert.deepEqual(run.losses, plain.losses);
      await run.dispose();
    },
  );

  await context.test('a callback that fails ends the call and names itself; the run continues', async () => {
    const run = await trained(job);
    const failing: readonly (readonly [RegExp, () => () => void])[] = [
      [
        /^the callback onStepEnd failed with TypeError: broken$/,
        () =>
          run.addCallback({
            onStepEnd: () => {
              throw new TypeError('broken');
            },
          }),
      ],
      [
        /^the callback onEvaluate failed with nothing$/,
        () => run.addCallback({ onEvaluate: async () => Promise.reject('nothing') }),
      ],
      [
        /^the function of run\.log failed with TypeError: row$/,
        () =>
          run.log(() => {
            throw new TypeError('row');
          }),
      ],
      [
        /^the callback onStepEnd failed with .* a callback cannot train its own run/,
        () => run.addCallback({ onStepEnd: () => run.step() }),
      ],
    ];
    for (const [message, add] of failing) {
      const remove = add();
      const error = await thrownBy(() => run.step(2, { evalSteps: 1 }));
      assert.equal(error.code, 'CALLBACK');
      assert.match(error.message, message);
      remove();
    }
    await run.step(8);
    assert.deepEqual(run.losses, plain.losses);
    await run.dispose();
  });

  await context.test(
    'patience ends a training that gets no better; the best checkpoint remains and is loaded',
    async () => {
      // Such a rate makes the validation loss grow after some steps.
      const run = await trained(job, 0.3);
      const outputDir = place('best');
      mkdirSync(join(outputDir, 'checkpoint-1000'), { recursive: true });
      const options: LoopOptions = {
        evalSteps: 1,
        saveSteps: 1,
        outputDir,
        saveTotalLimit: 2,
        loadBestModelAtEnd: true,
        earlyStoppingPatience: 3,
      };
      const summary = await run.step(100, options);
      const losses = run.evaluations.map(({ loss }) => loss);
      const best = losses.indexOf(Math.min(...losses)) + 1;
      assert.ok(best < losses.length, `${losses}`);
      assert.match(
        String(summary),
        /; ended after step \d+, by early stopping: no better validation loss in 3 evaluations$/,
      );
      assert.equal(summary.lastStep, losses.length);
      const names = readdirSync(outputDir).filter((name) => name !== 'checkpoint-1000');
      assert.deepEqual(names.sort(), [`checkpoint-${best}`, `checkpoint-${losses.length}`].sort());
      assert.equal((await run.evaluate()).loss, losses[best - 1]);
      assert.equal(run.lastStep, losses.length);
      await run.dispose();
    },
  );

  await context.test('what cannot be done is refused before a step', async () => {
    const isConfig = { code: 'CONFIG' };
    await assert.rejects(plain.step(5, { saveSteps: 2 }), isConfig);
    assert.throws(() => plain.addCallback({}), isConfig);
    assert.throws(() => plain.log('jsonl', ''), isConfig);
    assert.equal(plain.losses.length, 12);
  });
});

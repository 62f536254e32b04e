import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare } from '../../../src';
import { valuesHere } from '../../support/cases';
import { launchFor, launchForAll, runCell } from '../job-fixture';
import { checkLoopsByHand } from './loops-by-hand';

const shared = launchForAll({ ranks: 2 });

test('a loop by hand has the ledger of job.train, to the byte', async (context) => {
  const loops: Parameters<typeof checkLoopsByHand>[1] = [
    { model: 'gpt', strategy: 'FULL_SHARD' },
    { model: 'own', strategy: 'ZERO_2' },
    { model: 'layers', strategy: 'NO_SHARD' },
    {
      model: 'gpt',
      strategy: 'SHARD_GRAD_OP',
      settings: { accumulation: 2, clipNorm: 0.1, activationCheckpointing: 'full', mixedPrecision: 'bf16' },
    },
  ];
  await checkLoopsByHand(context, valuesHere(loops, [3]));
});

const SETUP = `
  const model = nn.gpt({ layers: 2, dim: 16, heads: 2, vocab: 64, seq: 8 });
  for (const block of model.blocks) fullyShard(block);
  fullyShard(model);
  const opt = optim.adamW(model, { lr: 1e-3 });
  const tokens = tf.randomUniform([2, 9], 0, 64, 'int32', rank + 1);
  const ids = tokens.slice([0, 0], [2, 8]);
  const targets = tokens.slice([0, 1], [2, 8]).flatten();
  const passOf = () => gradients(() => model.apply(ids, targets));
  let after = () => {};
  const train = (steps) => {
    for (let i = 0; i < steps; i++) {
      opt.zeroGrad();
      const pass = passOf();
      pass.backward();
      opt.step();
      after(i, pass.loss);
      pass.loss.dispose();
    }
  };
`;

/** The cells and functions that ran before a figure decide what it shows. */
test('cells and functions of a job are recorded step by step', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const causes = (step?: number): Record<string, number> => {
    const [record] = job.view.records.filter((one) => one.step === (step ?? job.view.records.at(-1)?.step));
    const { owners = [], atPeak = [] } = record?.memory ?? {};
    const sums: Record<string, number> = {};
    owners.forEach(({ cause }, i) => {
      sums[cause] = (sums[cause] ?? 0) + (atPeak[i] ?? 0);
    });
    return sums;
  };

  await context.test('before the first record, figures say what to do', () => {
    for (const draw of [
      () => job.memory(),
      () => job.comm(),
      () => job.timeline(),
      () => job.loss(),
      () => job.processes(),
    ]) {
      assert.throws(draw, { code: 'CONFIG', message: /run a %%ranks cell or await job\.on/ });
    }
    assert.throws(() => job.record(''), { code: 'CONFIG', message: /job\.record\('fsdp'\)/ });
  });

  await context.test('a cell that builds a model shows its shards', async () => {
    await runCell(job, SETUP, 3);
    assert.ok((causes()['param.shard'] ?? 0) > 10_000);
    assert.match(job.memory().subtitle ?? '', /cell 3/);
    assert.throws(() => job.loss(), { code: 'CONFIG', message: /report\(loss\)/ });
  });

  await context.test('a pass without an update is drawn, and the first step replaces it', async () => {
    await runCell(job, 'const first = passOf(); first.dispose(); first.loss.dispose();', 4);
    assert.ok((causes().activation ?? 0) > 0);
    assert.equal(job.comm().title.includes('Nothing'), false);
    await runCell(job, 'train(3)', 5);
    assert.deepEqual([...new Set(job.view.records.map(({ step }) => step))], [1, 2, 3]);
    assert.equal(job.losses.length, 3);
    assert.match(job.loss().title, /3 steps/);
  });

  await context.test('looking at a tensor hides no step, and a new cell continues the numbers', async () => {
    await runCell(job, 'tf.max(tokens)', 6, '0');
    assert.equal(job.view.records.at(-1)?.step, 3);
    const evaluation = 'model.eval(); tf.tidy(() => model.apply(ids, targets).dataSync()); model.train();';
    await runCell(job, evaluation, 6);
    assert.equal(job.view.records.at(-1)?.step, 4);
    assert.match(job.loss().title, /3 steps/);
    assert.equal(job.losses.length, 3);
    await runCell(job, 'train(2)', 7);
    assert.equal(job.losses.length, 5);
    assert.match(job.memory({ step: 4 }).subtitle ?? '', /step 4 of cell 7/);
    assert.throws(() => job.memory({ step: 9 }), { code: 'CONFIG', message: /1 to 5/ });
    for (const figure of [job.memory(), job.memory({ over: 'time' }), job.comm(), job.timeline()]) {
      assert.ok(figure.title.length > 0);
    }
    assert.equal(job.processes().rows.length, 2);
    const { steps, memory } = await job.frames();
    assert.deepEqual(steps.columns, ['step', 'loss', 'lr', 'gradNorm', 'seconds']);
    assert.ok((memory.shape[0] ?? 0) > 0);
  });

  await context.test('report sets the loss of the step that has ended, or of the current one', async () => {
    job.record('reports');
    await runCell(job, 'after = (i, loss) => report(i + rank); train(3); after = () => {};', 8);
    assert.deepEqual(job.losses, [0.5, 1.5, 2.5]);
    await runCell(job, 'report(7); train(1)', 9);
    assert.deepEqual(job.losses, [0.5, 1.5, 2.5, 7]);
    await runCell(job, 'train(1); tf.scalar(0.25)', 10);
    assert.equal(job.losses.at(-1), 0.25);
    await assert.rejects(runCell(job, 'report("low")', 11), { message: /report takes a number or a tensor/ });
  });

  await context.test('updates without a pass between them end one step', async () => {
    job.record('two optimizers');
    await runCell(
      job,
      'const other = optim.sgd(model, { lr: 1e-3 }); after = () => other.step(); train(3);',
      12,
    );
    assert.equal(job.losses.length, 3);
    await runCell(job, 'after = () => {}; other.dispose();', 13);
  });

  await context.test('a step over several cells draws the last cell, and names the first one', async () => {
    job.record('split');
    await runCell(job, 'var split = passOf();', 20);
    assert.match(job.comm().subtitle ?? '', /^split, 2 ranks/);
    await runCell(job, 'split.backward();', 21);
    const backward = /^split, cell 21 only \(its step began in cell 20\), 2 ranks/;
    assert.match(job.comm().subtitle ?? '', backward);
    await runCell(job, 'opt.step(); split.loss.dispose();', 22);
    assert.equal(job.comm().title, 'Nothing was communicated in cell 22');
    const update = /^split, cell 22 only \(its step began in cell 20\), 2 ranks/;
    for (const figure of [job.comm(), job.timeline()]) assert.match(figure.subtitle ?? '', update);
    assert.match(job.memory().subtitle ?? '', /step 1 of split, cell 22 only/);
    assert.ok(Number.isFinite(job.losses[0]));
    await runCell(job, 'train(1)', 23);
    assert.doesNotMatch(job.comm().subtitle ?? '', /only/);
  });

  await context.test('an update without a pass is a step without a loss, not one that diverged', async () => {
    await runCell(job, 'opt.step()', 24);
    assert.equal(Number.isNaN(job.losses.at(-1)), true);
    assert.match(job.loss().title, /in 3 steps/);
    assert.doesNotMatch(job.comm().subtitle ?? '', /only/);
  });

  await context.test('what a cell does after its only update belongs to the step', async () => {
    job.record('tail');
    await runCell(job, 'train(1); dist.allReduce(tf.ones([4]));', 14);
    const [record] = job.view.records;
    assert.ok(record?.collectives.some(({ cause }) => cause === 'user'));
  });

  await context.test('a function that some ranks run is a record of these ranks', async () => {
    job.record('one rank');
    await job.on(1).run(({ tf, nn, optim, gradients }) => {
      const own = new nn.Linear(4, 1);
      const optimizer = optim.sgd(own, { lr: 0.1 });
      const x = tf.ones([2, 4]);
      for (let i = 0; i < 2; i++) {
        gradients(() => tf.mean(own.apply(x))).backward();
        optimizer.step();
        optimizer.zeroGrad();
      }
    });
    assert.deepEqual(
      job.view.records.map(({ step, rank, world }) => [step, rank, world]),
      [
        [1, 1, 1],
        [2, 1, 1],
      ],
    );
    assert.match(job.memory().subtitle ?? '', /one rank/);
  });

  await context.test('a cell that fails, or is interrupted, has its whole steps', async () => {
    job.record('failing');
    const cell = 'after = (i) => { if (i === 3 && rank === 1) throw new Error("halfway"); }; train(9);';
    await assert.rejects(runCell(job, cell, 15), /halfway/);
    assert.equal(job.losses.length, 4);
    // Rank 1 has failed after its update, so it has the step.
    assert.ok(job.view.records.some(({ step, rank }) => step === 4 && rank === 1));
    await runCell(job, 'after = () => {}; train(1)', 16);
    assert.equal(job.losses.length, 5);
    const alone = `
      const own = new nn.Linear(4, 1);
      const ownOpt = optim.sgd(own, { lr: 0.1 });
      const trainAlone = (steps) => {
        for (let i = 0; i < steps; i++) {
          gradients(() => tf.mean(own.apply(tf.ones([2, 4])))).backward();
          ownOpt.step();
          ownOpt.zeroGrad();
        }
      };`;
    await runCell(job, alone, 17);
    const endless = runCell(job, 'tf.tidy(() => trainAlone(1e9))', 18).catch((error: unknown) => error);
    while (job.losses.length < 10) await new Promise((resolve) => setTimeout(resolve, 5));
    await job.interrupt();
    assert.match(String(await endless), /interrupted/);
    // Ranks are interrupted at different collectives of a pass; the model still trains.
    const sharded = runCell(job, 'after = (i) => { if (i === 2) console.log("third"); }; train(1e9)', 30);
    const stopped = sharded.catch((error: unknown) => error);
    const soFar = job.losses.length;
    while (job.losses.length < soFar + 3) await new Promise((resolve) => setTimeout(resolve, 5));
    await job.interrupt();
    assert.match(String(await stopped), /interrupted/);
    await runCell(job, 'after = () => {}; train(2)', 31);
    const seen = job.losses.length;
    assert.ok(job.memory().title.length > 0);
    await runCell(job, 'trainAlone(2)', 19);
    assert.equal(job.losses.length, seen + 2);
    assert.equal(job.view.records.filter(({ step }) => step === seen + 2).length, 2);
    for (const record of job.view.records) assert.notEqual(record.memory.residualBytes, null);
  });

  await context.test('recordings are compared side by side, and replaced by name', async () => {
    assert.deepEqual(Object.keys(job.records), [
      'reports',
      'two optimizers',
      'split',
      'tail',
      'one rank',
      'failing',
    ]);
    const { tail, failing } = job.records;
    for (const what of ['memory', 'loss', 'comm', 'timeline', 'memoryTimeline'] as const) {
      const figure = compare({ first: tail ?? job, second: failing ?? job }, what);
      assert.equal(JSON.stringify(figure).includes('second'), true, what);
    }
    assert.equal(job.record('tail').losses.length, 0);
    assert.throws(() => job.memory(), { code: 'CONFIG', message: /since job\.record\('tail'\)/ });
  });

  await context.test('records outlive their ranks', async () => {
    await runCell(job, 'trainAlone(2)', 20);
    await job.kill(1);
    await assert.rejects(runCell(job, 'trainAlone(1)', 21));
    assert.equal(job.losses.length, 2);
    assert.ok(job.memory().title.length > 0);
    await job.shutdown();
    assert.ok(job.timeline().title.length > 0);
  });
});

test('a layers model of tfjs has the same causes', async () => {
  const job = shared();
  await job.on('all').run(({ tf, fullyShard, optim, gradients, rank }) => {
    const model = tf.sequential({
      layers: [
        tf.layers.dense({ units: 32, inputShape: [16], activation: 'relu' }),
        tf.layers.dense({ units: 1 }),
      ],
    });
    fullyShard(model);
    const optimizer = optim.adamW(model, { lr: 1e-2 });
    const x = tf.randomUniform([8, 16], -1, 1, 'float32', rank);
    for (let i = 0; i < 3; i++) {
      const pass = gradients(() => tf.mean(tf.square(model.apply(x) as typeof x)));
      pass.backward();
      optimizer.step();
      optimizer.zeroGrad();
      pass.loss.dispose();
    }
  });
  const [record] = job.view.records.filter(({ step }) => step === 3);
  const { owners = [], atPeak = [] } = record?.memory ?? {};
  const causes = new Set(owners.filter((_, i) => (atPeak[i] ?? 0) > 0).map(({ cause }) => cause));
  for (const cause of ['param.shard', 'param.full', 'optimizer', 'batch'] as const)
    assert.ok(causes.has(cause), cause);
  assert.equal(job.losses.length, 3);
  assert.ok(job.comm().title.includes('parameters'));
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchForAll, runCell } from '../../session/job-fixture';
import { assertClose } from '../../support/close';

/** Losses and norms of the gradients, of torch 2.13 on the whole model with two microbatches and SGD. */
const TORCH_FROZEN = [0.157885276, 0.541488945, 0.120795108, 0.074008584, 0.131796353, 0.136207089];

const BUILD = `
const parallel = initializeModelParallel({ pipelineModelParallelSize: 2 });
const stages = pipelineStages(nn.gpt({ layers: 2, dim: 8, heads: 2, vocab: 16, seq: 4 }), { group: parallel.pp });
const optimizer = optim.AdamW(stages[0].submod, { lr: 1e-2 });
const x = tf.zeros([4, 4], 'int32');
const target = tf.zeros([16], 'int32');
`;

const shared = launchForAll({ ranks: 2 });

test('cells train a pipeline; errors and hang reports name the microbatch and the stage', async () => {
  const job = shared();
  await runCell(
    job,
    `${BUILD}
    const schedule = new Schedule1F1B(stages, { numMicrobatches: 4 });
    for (let step = 0; step < 3; step++) {
      schedule.step(x, { target });
      optim.clipGradNorm(schedule, 1);
      optimizer.step();
      optimizer.zeroGrad();
    }`,
    1,
  );
  assert.equal(job.losses.length, 3);
  assert.ok((job.losses[2] ?? 9) < (job.losses[0] ?? 0), `${job.losses}`);
  const records = job.view.records;
  const spans = records.flatMap(({ rank, spans }) => spans.map((span) => ({ rank, ...span })));
  assert.equal(spans.filter(({ pipeline }) => pipeline !== undefined).length, 3 * 2 * 2 * 4);

  assert.match(
    job.timeline({ as: 'pipeline' }).title,
    /^cell 1 · 4 microbatches on 2 stages: ranks are idle for \d+% of the step$/,
  );

  await assert.rejects(
    runCell(job, 'if (rank === 0) schedule.step(x, { target })', 2, 'all'),
    (error: Error) => {
      assert.match(
        error.message,
        /rank 0 waits in recv #\d+ \(the gradient of microbatch 0 from stage 1, group pp\[0,1\], module stage 0 \| 1, cell 2/,
      );
      return true;
    },
  );

  await assert.rejects(
    runCell(
      job,
      `${BUILD}
      const unequal = new ScheduleGPipe(stages, { numMicrobatches: rank === 0 ? 2 : 4 });
      unequal.step(x, { target })`,
      3,
    ),
    /different collectives: .*the shape of the output of microbatch 0 from stage 0, gpipe of 2 microbatches/,
  );
});

test('a pipeline whose first stage is frozen trains the other stages, as torch trains the whole model', async () => {
  const events = await runCell(
    shared(),
    `{
      const wave = (shape, seed) => {
        const size = tf.util.sizeFromShape(shape);
        return tf.tensor(Float32Array.from({ length: size }, (_, n) => 0.5 * Math.sin(n + seed)), shape);
      };
      const net = new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 4), new nn.Tanh(), new nn.Linear(4, 2));
      for (const [i, parameter] of net.parameters().entries()) {
        parameter.replace(tf.keep(wave([...parameter.shape], i)));
        parameter.requiresGrad = i >= 2;
      }
      const parallel = initializeModelParallel({ pipelineModelParallelSize: 2 });
      const stages = pipelineStages(net, { group: parallel.pp, split: [2, 3] });
      const lossFn = (y, target) => nn.functional.mseLoss(y, target);
      const schedule = new Schedule1F1B(stages, { numMicrobatches: 2, lossFn });
      const optimizer = optim.sgd(schedule, { lr: 0.3 });
      const found = [0, 1, 2].map((step) => {
        const loss = schedule.step(wave([4, 3], step), { target: wave([4, 2], 9 + step) });
        const norm = optim.clipGradNorm(schedule, 0.5);
        optimizer.step();
        optimizer.zeroGrad();
        return [loss ?? 0, norm];
      });
      globalThis.found = found.flat();
    }
    0;`,
    4,
  );
  assert.equal(events.filter(({ kind }) => kind === 'error').length, 0);
  const [first = [], last = []] = await shared()
    .on('all')
    .run(() => (globalThis as unknown as { found: number[] }).found);
  const isNorm = (_: unknown, i: number): boolean => i % 2 === 1;
  assertClose(last, TORCH_FROZEN, 2e-6, 'losses and norms');
  assertClose(first.filter(isNorm), TORCH_FROZEN.filter(isNorm), 2e-6, 'norms on the frozen stage');
});

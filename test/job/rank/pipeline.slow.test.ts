import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchForAll, runCell } from '../job-fixture';

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
    /^4 microbatches on 2 stages: ranks are idle for \d+% of the step$/,
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

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { launchFor } from '../job-fixture';
import { checkPlanted, collectNotes, NOTE_SECONDS, type Planted } from './shown-hangs';

/** Four stages that send four microbatches by hand; line 3 receives, `before` is line 4, line 5 sends. */
const byHand = ({
  before = '',
  receives = 'rank > 0',
  sends = 'rank < 3',
}): string => `const x = tf.ones([2]);
for (let k = 0; k < 4; k++) {
  if (${receives}) dist.recv(x, rank - 1);
  ${before}
  if (${sends}) dist.send(x, rank + 1);
}`;

/** A pipeline of four stages and four microbatches; `forward` is line 6 of a stage, `before` is line 11, the step is line 12. */
const pipeline = ({ forward = '', before = '', schedule = 'Schedule1F1B' }): string =>
  `const parallel = initializeModelParallel({ pipelineModelParallelSize: 4 });
class Layer extends nn.Module {
  fc = new nn.Linear(4, 4);
  seen = 0;
  forward(x) {
    ${forward}
    return this.fc.forward(x);
  }
}
const stages = pipelineStages(new nn.Sequential(new Layer(), new Layer(), new Layer(), new Layer()), { group: parallel.pp });
${before}
new ${schedule}(stages, { numMicrobatches: 4, lossFn: (y) => tf.mean(y) }).step(tf.ones([8, 4]), { target: tf.ones([8, 4]) });`;

/** Experts on two pairs of ranks; `before` is line 4, the layer is line 5, the barrier line 6. */
const experts = ({ before = '', layer = 'moe(tf.ones([2, 4, 6]));' }): string =>
  `const parallel = initializeModelParallel({ expertModelParallelSize: 2 });
const moe = new nn.MixtureOfExperts({ dim: 6, experts: 4, router: 'topk', topK: 2 });
applyExpertParallel(moe, parallel);
${before}
${layer}
dist.barrier();`;

const SLEEPS = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)';
const STOPS = 'require("node:child_process").execSync("kill -STOP " + process.pid)';
// The layer's forward ran once before, in which the schedule learnt the order of layers; so microbatch 2 is the fourth.
const AT_MICROBATCH_2 = 'rank === 2 && this.seen++ === 3';

/** Cells of four ranks. */
const PLANTED: Planted = {
  'a stage that loops before it sends microbatch 2': [
    byHand({ before: 'if (rank === 2 && k === 2) while (true) {}' }),
    /^rank 1 waits in send #4 \(cell 7, line 5\) for rank 2, which runs cell 7, line 4 .*\nrank 3 waits in recv #3 \(cell 7, line 3\) for rank 2/,
  ],
  'a stage that awaits before it receives microbatch 2': [
    byHand({
      before: 'if (rank === 2 && k === 1) await new Promise(() => {});',
    }),
    /^rank 0 waits in send #4 .* for rank 1, which waits in send #3 .*\nrank 1 waits in send #3 \(cell 7, line 5\) for rank 2, which awaits something in cell 7 /,
  ],
  'a stage that leaves out the send of microbatch 2': [
    byHand({ sends: 'rank < 3 && !(rank === 2 && k === 2)' }),
    /rank 3 waits in recv #4 \(cell 7, line 3\), but rank 2 ended without calling it/,
  ],
  'a stage that leaves out the receive of microbatch 2': [
    byHand({ receives: 'rank > 0 && !(rank === 2 && k === 2)' }),
    /rank 1 waits in send #4 \(cell 7, line 5\), but rank 2 ended without calling it/,
  ],
  'a stopped stage': [
    byHand({ before: `if (rank === 2 && k === 2) ${STOPS};` }),
    /^rank 1 waits in send #4 \(cell 7, line 5\) for rank 2, which is stopped .*\nrank 3 waits in recv #3 \(cell 7, line 3\) for rank 2, which is stopped/,
  ],
  'a stage of 1F1B whose forward loops at microbatch 2': [
    pipeline({ forward: `if (${AT_MICROBATCH_2}) while (true) {}` }),
    /rank 1 waits in recv #\d+ \(the gradient of microbatch \d from stage 2, group pp\[0,1,2,3\].*, module stage 1 \| 2, cell 7, line 12\) for rank 2, which runs cell 7, line 6 .*\nrank 3 waits in recv #\d+ \(the output of microbatch 3 from stage 2, .*module stage 2 \| 3, cell 7, line 12\) for rank 2/,
  ],
  'a stage of GPipe whose forward sleeps': [
    pipeline({ forward: `if (${AT_MICROBATCH_2}) ${SLEEPS};`, schedule: 'ScheduleGPipe' }),
    /rank 1 waits in recv #1 \(the gradient of microbatch 0 from stage 2, .*, cell 7, line 12\) for rank 2, which runs cell 7, line 6 /,
  ],
  'a stage that does not begin its step': [
    pipeline({ before: 'if (rank === 2) await new Promise(() => {});' }),
    /rank 1 waits in send #1 \(the shape of the output of microbatch 0 from stage 1, 1f1b of 4 microbatches, .*, cell 7, line 12\) for rank 2, which awaits something in cell 7 /,
  ],
  'an all-to-all that a rank does not reach': [
    'const x = tf.ones([8]);\ndist.allToAll(x);\nif (rank === 2) while (true) {}\ndist.allToAll(x);',
    /^ranks 0, 1, 3 wait in allToAll #\d+ \(cell 7, line 4\) for rank 2, which runs cell 7, line 3 /,
  ],
  'an all-to-all that a rank leaves out': [
    'const x = tf.ones([8]);\nif (rank !== 2) dist.allToAll(x);\ndist.allReduce(x);',
    /ranks 0, 1, 3 called allToAll of 8 float32 \(number (\d+)\) at In\[7\]:2; rank 2 called allReduce of 8 float32 \(sum, number \1\) at In\[7\]:3/,
  ],
  'an asynchronous all-to-all of a group': [
    'const ep = [dist.newGroup([0, 1]), dist.newGroup([2, 3])][rank >> 1];\nconst x = tf.ones([8]);\nif (rank === 2) while (true) {}\nconst work = dist.allToAll(x, { group: ep, asyncOp: true });\nwork.wait();\ndist.barrier();',
    /rank 3 waits in allToAll #1 \(group world\[2,3\].*, cell 7, line 4\) for rank 2, which runs cell 7, line 3 /,
  ],
  'a layer of experts that a rank does not reach': [
    experts({ before: 'if (rank === 2) while (true) {}' }),
    /rank 3 waits in allToAll #1 \(group ep\[2,3\].*, cell 7, line 5\) for rank 2, which runs cell 7, line 4 /,
  ],
  'a layer of experts that a rank leaves out': [
    experts({ layer: 'if (rank !== 2) moe(tf.ones([2, 4, 6]));' }),
    /rank 3 in allToAll #1 \(group ep\[2,3\].*, cell 7, line 5\) for rank 2, rank 2 in barrier #\d+ \(cell 7, line 6\) for rank 3/,
  ],
  'an expert that loops on one rank': [
    experts({
      before:
        'for (const expert of moe.experts) { const forward = expert.forward.bind(expert); expert.forward = (x) => { while (rank === 2) {} return forward(x); }; }',
    }),
    /rank 3 waits in allToAll #3 \(group ep\[2,3\].*, cell 7, line 5\) for rank 2, which runs cell 7, line 4 /,
  ],
};

const cellWith = (job: Job, js: string): Promise<unknown> =>
  job.runCell({ js, cell: 7, selection: 'all' }, () => undefined).catch((error: unknown) => error);

test('a note or an error names the stage, the microbatch or the all-to-all that does not come', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  await checkPlanted(context, job, PLANTED, (code) => cellWith(job, code));
});

test('a note of a training with a pipeline names the microbatch, both stages and the line of the model', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const shown = collectNotes(context);
  const run = await job.train({
    model: ({ nn, rank }) => {
      class Slow extends nn.Module {
        layer = new nn.Linear(4, 4);
        #left = 7;
        forward(x: never) {
          while (rank === 1 && this.#left === 0) {}
          this.#left--;
          return this.layer.forward(x);
        }
      }
      return new nn.Sequential(new Slow(), new Slow());
    },
    data: ({ tf }) => ({ x: tf.ones([4, 4]) }),
    loss: (y) => y.mean(),
    parallel: { pp: 2, microbatches: 4 },
  });
  const stepping = run.step(9).catch((error: unknown) => error);
  const note = await shown.next(NOTE_SECONDS);
  await job.interrupt();
  await stepping;
  assert.match(
    note,
    /^rank 0 waits in \w+ #\d+ \(the (output|gradient) of microbatch \d from stage \d, group .*, module stage 0 \| 1.*\) for rank 1, which runs job\.train model:/,
  );
});

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { launchFor, temporaryFolder } from '../job-fixture';
import { checkQuiet, SLOW_SECONDS } from './slow-runs';

/** Slow work of rank 2, for which the other ranks wait: until `end`, the rank runs `body` again and again. */
const whileOthersWait = (body: string): string =>
  `if (rank === 2) {
  const end = Date.now() + ${SLOW_SECONDS * 1e3};
  let kept = [];
  while (Date.now() < end) { ${body} }
}
dist.barrier();`;

/** 20 Mbit/s: a ring all-reduce of 16 MB on four ranks takes 9.6 s. */
const SLOW_LINK = { gbit: 0.02, latencyUs: 100 };

const cellOf = (job: Job, js: string) => async (): Promise<void> => {
  await job.runCell({ js, cell: 7, selection: 'all' }, () => undefined);
};

test('slow links, uneven ranks, prepared data, long steps, checkpoints and evaluations give no note', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  const slow = await launchFor(context, { ranks: 4, link: SLOW_LINK });
  const { path } = temporaryFolder(context);
  const text = join(path, 'text.txt');
  writeFileSync(text, 'to be or not to be '.repeat(200_000));
  const small = join(path, 'small.txt');
  writeFileSync(small, 'to be or not to be '.repeat(2_000));
  const uneven = await job.train({
    model: ({ nn, rank, tf }) => {
      class Uneven extends nn.Module {
        layer = new nn.Linear(64, 64);
        forward(x: never) {
          const end = Date.now() + (rank === 1 ? 6000 : 0);
          while (Date.now() < end) tf.tidy(() => void tf.matMul(tf.ones([64, 64]), tf.ones([64, 64])));
          return this.layer.forward(x);
        }
      }
      return new Uneven();
    },
    data: ({ tf }) => ({ x: tf.ones([2, 64]) }),
    loss: (y) => y.mean(),
    parallel: { strategy: 'FULL_SHARD' },
  });
  const tiny = { model: 'tiny', batch: 8, parallel: { strategy: 'FULL_SHARD' } } as const;
  const run = await job.train({ ...tiny, data: { path: small, validation: 0.1 } });
  const overSlowLink = await slow.train(tiny);
  let numSaves = 0;
  await checkQuiet(
    context,
    {
      'a slow link': cellOf(slow, 'dist.allReduce(tf.ones([4_000_000]));'),
      'training over a slow link': () => overSlowLink.step(3),
      'a rank that computes': cellOf(
        job,
        whileOthersWait('tf.tidy(() => void tf.ones([64, 64]).matMul(tf.ones([64, 64])));'),
      ),
      'a rank that makes rows of text': cellOf(
        job,
        whileOthersWait(
          'for (let i = 0; i < 1e4; i++) kept.push(String(Math.random()).split(".")); if (kept.length > 2e5) kept = [];',
        ),
      ),
      'a rank that reads a file': cellOf(
        job,
        whileOthersWait(`require('node:fs').readFileSync(${JSON.stringify(text)});`),
      ),
      'a rank whose child process computes': cellOf(
        job,
        `const { execFileSync } = require('node:child_process');
if (rank === 2) execFileSync(process.execPath, ['-e', 'const end = Date.now() + ${SLOW_SECONDS * 1e3}; while (Date.now() < end) {}']);
dist.barrier();`,
      ),
      'steps of uneven ranks': () => uneven.step(2),
      'steps, evaluations and checkpoints': () =>
        run.step(12, { evalSteps: 4, saveSteps: 6, outputDir: join(path, `run-${numSaves++}`) }),
      'steps of two jobs at once': () => Promise.all([run.step(10), overSlowLink.step(2)]),
    },
    3,
  );
});

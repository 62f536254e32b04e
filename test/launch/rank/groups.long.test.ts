import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { launch } from '../../../src/session/run/launch';
import { runCell } from '../../session/job-fixture';

const CONFIG = {
  model: { kind: 'gpt', layers: 2, dim: 8, heads: 2, vocab: 32, seq: 4 },
  data: 'synthetic',
  batch: 8,
  parallel: { tp: 2, pp: 2 },
} as const;

const CELL =
  'let parallel = initializeModelParallel({ tensorModelParallelSize: 2, pipelineModelParallelSize: 2 }); let x = tf.ones([9]); ' +
  'dist.allReduce(x, { group: parallel.tp }); dist.allReduce(x, { group: parallel.pp, asyncOp: true }).wait().dataSync()[0]';

/** Without release, the segment has room for 326 runs on 4 ranks, and for 43 runs on 16 ranks. */
const CASES = [
  { ranks: 4, numRuns: 400, numCells: 400 },
  { ranks: 16, numRuns: 60, numCells: 80 },
] as const;

describe('the groups of one job', () => {
  for (const { ranks, numRuns, numCells } of CASES) {
    it(`leave the segment with ${numRuns} disposed runs and ${numCells} cells on ${ranks} ranks`, async () => {
      const job = await launch({ ranks });
      try {
        for (let i = 0; i < numRuns; i++) {
          const run = await job.train(CONFIG);
          if (i % 10 === 0) await run.step(1);
          await run.dispose();
        }
        for (let i = 0; i < numCells; i++) {
          const events = await runCell(job, CELL, i + 1);
          assert.equal(events.filter(({ kind }) => kind === 'result').length, ranks);
        }
      } finally {
        await job.shutdown();
      }
    });
  }
});

import assert from 'node:assert/strict';
import { before, describe, it, type TestContext } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { launch } from '../../../src/session/run/launch';
import type { Run } from '../../../src/session/run/run';
import { lacksDeepSpeed, largestDifference, launchTorch } from '../torch-fixture';
import { type Case, STEPS } from './loss-cases';

/** Losses on PyTorch are within this of the losses of this library's ranks. */
const BOUND = 1e-4;

/** What is compared of a run's steps. */
interface Steps {
  readonly losses: readonly number[];
  /** Norms of the gradients before clipping, of the steps that were not skipped. */
  readonly norms: readonly number[];
  /** The numbers of the steps whose update a scaler skipped. */
  readonly skipped: readonly number[];
}

function stepsOf({ losses, results }: Run): Steps {
  const [skipped, done] = [results.filter((one) => one.skipped), results.filter((one) => !one.skipped)];
  return {
    losses,
    norms: done.map(({ gradNorm }) => gradNorm),
    skipped: skipped.map(({ step }) => step),
  };
}

/** Declares tests that compare the steps of runs on PyTorch with those of the same runs on this library's ranks. */
export function compareLosses(cases: readonly Case[]): void {
  describe(`losses of ${STEPS} steps on PyTorch equal those of this library`, () => {
    const expected = new Map<Case, Steps>();
    before(async () => {
      for (const [ranks, same] of groupsOf(cases, 'dp')) {
        const job = await launch({ ranks });
        try {
          for (const one of same) expected.set(one, await expectedSteps(job, one));
        } finally {
          await job.shutdown();
        }
      }
    });

    for (const [ranks, same] of groupsOf(cases, 'ranks')) {
      it(`on ${ranks} ranks`, async (context) => {
        const job = await launchTorch(context, { ranks });
        for (const one of same) {
          const skip = one.framework === 'deepspeed' && lacksDeepSpeed();
          await context.test(one.name, { skip }, (test) => compare(job, one, expected.get(one), test));
        }
      });
    }
  });
}

async function expectedSteps(job: Job, { config, dp }: Case): Promise<Steps> {
  const { parallel: { communicationDataType = null } = {}, ...rest } = config;
  const parallel = { strategy: 'NO_SHARD', communicationDataType } as const;
  const run = await job.train({ ...rest, parallel }, { ranks: dp });
  await run.step(STEPS);
  const steps = stepsOf(run);
  await run.dispose();
  return steps;
}

async function compare(
  job: Job,
  { config, framework = 'fsdp2', bound = BOUND }: Case,
  expected: Steps | undefined,
  test: TestContext,
): Promise<void> {
  const run = await job.train(config, { framework });
  try {
    await run.step(STEPS);
    const { losses, norms, skipped } = stepsOf(run);
    const ours = expected ?? { losses: [], norms: [], skipped: [] };
    assert.deepEqual(skipped, ours.skipped, 'skipped steps');
    const differences = {
      losses: largestDifference(losses, ours.losses),
      // A norm may be large in a single step, so its difference is relative.
      norms: largestDifference(
        norms.map((norm, i) => norm / (ours.norms[i] ?? Number.NaN)),
        norms.map(() => 1),
      ),
    };
    for (const [what, difference] of Object.entries(differences)) {
      test.diagnostic(`${what}: largest difference ${difference.toExponential(1)}`);
      assert.ok(difference <= bound, `${what}: ${difference} of ${bound}: ${losses}; ${ours.losses}`);
    }
  } finally {
    await run.dispose();
  }
}

function groupsOf(cases: readonly Case[], key: 'dp' | 'ranks'): Map<number, Case[]> {
  const groups = new Map<number, Case[]>();
  for (const one of cases) groups.set(one[key], [...(groups.get(one[key]) ?? []), one]);
  return groups;
}

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { TorchFramework } from '../../src/launch/control/torch-messages';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import type { Run } from '../../src/session/run/run';
import { GPT, lacksDeepSpeed, largestDifference } from './torch-fixture';

/** Losses of both engines differ by at most this. */
export const LOSS_BOUND = 1e-4;
/** Gradients and parameters of both engines differ by at most this share; Adam makes rounding of small gradients larger. */
const TOLERANCE = 1e-3;
const STEPS = 4;

/** The config from which cases start. */
export const BASE = { model: GPT, batch: 2, optimizer: { lr: 3e-3 }, seed: 5 } as const;

/** A config that two ranks of each engine train. */
export interface SettingsCase {
  readonly name: string;
  readonly config: TrainConfigInput;
  readonly framework?: TorchFramework;
  readonly bound?: number;
}

/** Both runs of a case, after their steps. */
export interface BothRuns {
  readonly here: Run;
  readonly there: Run;
}

/**
 * Declares a test per case: two ranks of this library and two of PyTorch have the same losses, gradients and parameters.
 * `check` looks at both runs after that.
 */
export function compareSettings(
  what: string,
  cases: readonly SettingsCase[],
  more: (jobs: readonly Job[]) => void = () => undefined,
): void {
  describe(what, () => {
    const jobs: Job[] = [];
    before(async () => {
      jobs.push(await launch({ ranks: 2 }), await launch({ engine: 'torch', ranks: 2 }));
    });
    after(() => Promise.all(jobs.map((job) => job.shutdown())));
    for (const one of cases) {
      const skip = one.framework === 'deepspeed' && lacksDeepSpeed();
      it(one.name, { skip }, () => compare(jobs, one));
    }
    more(jobs);
  });
}

async function compare(
  [ours, theirs]: readonly Job[],
  { config, framework = 'fsdp2', bound = LOSS_BOUND }: SettingsCase,
): Promise<void> {
  const here = await ours?.train(config);
  const there = await theirs?.train(config, { framework });
  assert.ok(here !== undefined && there !== undefined);
  for (const run of [here, there]) await run.step(STEPS);
  const difference = largestDifference(there.losses, here.losses);
  assert.ok(difference <= bound, `${difference} of ${bound}: ${there.losses}; ${here.losses}`);
  if (framework !== 'deepspeed') {
    // DeepSpeed has freed the gradients.
    const { first } = await here.parity(there, { steps: 1, tolerance: Math.max(TOLERANCE, bound) });
    assert.equal(first, null, JSON.stringify(first));
  }
  for (const run of [here, there]) await run.dispose();
}

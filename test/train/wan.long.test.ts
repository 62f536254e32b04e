import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PRESETS } from '../../src/config/named-config';
import { NAMED_MODELS } from '../../src/config/named-models';
import type { TrainConfigInput } from '../../src/config/train-config';
import { launchFor } from '../job/job-fixture';

const STEPS = 200;
const SEEDS = [0, 1, 2];

/** Every rank has whole videos of its own, which is faster on two cores than Ulysses. */
const RECIPE: TrainConfigInput = {
  ...PRESETS.wan,
  parallel: { strategy: 'FULL_SHARD' },
  schedule: { kind: 'cosine', warmupSteps: 20, maxSteps: STEPS },
};

/**
 * The controls take as many steps, on as many videos, with as many active parameters and operations per step. The single expert
 * sees all timesteps in every step; the two experts take turns, so each has half of the steps, and both have twice its parameters.
 */
const RUNS: Readonly<Record<'two' | 'one' | 'shuffled', TrainConfigInput>> = {
  two: {},
  one: { model: { ...NAMED_MODELS['wan-tiny'], latent: [4, 4, 4], patch: [1, 1, 1], experts: 1 } },
  shuffled: { movingShapes: { shuffleCaptions: true } },
};

test('on 4 ranks, captions lower the validation loss of two experts with every seed, and one expert is compared', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  const losses: Record<keyof typeof RUNS, number[]> = { two: [], one: [], shuffled: [] };
  for (const seed of SEEDS) {
    for (const name of ['two', 'one', 'shuffled'] as const) {
      const run = await job.train({ ...RECIPE, ...RUNS[name], seed });
      await run.step(STEPS);
      losses[name].push((await run.evaluate()).loss);
      await run.dispose();
    }
  }
  for (const [name, found] of Object.entries(losses))
    context.diagnostic(`${name}: ${found.map((loss) => loss.toFixed(4)).join(', ')}`);
  for (const [i, loss] of losses.two.entries())
    assert.ok(
      loss < (losses.shuffled[i] ?? 0),
      `seed ${SEEDS[i]}: captions ${loss}, shuffled ${losses.shuffled[i]}`,
    );
  // One expert is only reported: which of both is better depends on the seed (docs/wan.md).
});

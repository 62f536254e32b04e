import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DitConfig } from '../../src/config/families/kinds';
import { PRESETS } from '../../src/config/named-config';
import { modelShape } from '../../src/config/settings/model';
import type { TrainConfigInput } from '../../src/config/train-config';
import { launchFor } from '../session/job-fixture';

const STEPS = 600;
/** The sizes, the learning rate and the number of steps were chosen with other seeds. */
const SEEDS = [0, 1, 2];

/** So small that its capacity limits it: one block, for videos of 4 frames of 8 x 8 pixels. */
const MODEL: Partial<DitConfig> & Pick<DitConfig, 'kind' | 'layers' | 'dim' | 'heads' | 'ffn' | 'latent'> = {
  ...wanTiny(),
  layers: 1,
  dim: 16,
  heads: 2,
  ffn: 32,
  latent: [4, 4, 4],
  patch: [1, 1, 1],
  inChannels: 12,
  outChannels: 12,
};

/** Every rank has whole videos of its own, which is faster on two cores than Ulysses. */
const RECIPE: TrainConfigInput = {
  ...PRESETS.wan,
  model: MODEL,
  parallel: { strategy: 'FULL_SHARD' },
  optimizer: { ...PRESETS.wan.optimizer, lr: 0.02 },
  schedule: { kind: 'cosine', warmupSteps: 20, maxSteps: STEPS },
};

/**
 * The controls take as many steps, on as many videos, with as many active parameters and operations per step. The single expert
 * sees all timesteps in every step; the two experts take turns, so each has half of the steps, and both have twice its parameters.
 */
const RUNS: Readonly<Record<'two' | 'one' | 'shuffled', TrainConfigInput>> = {
  two: {},
  one: { model: { ...MODEL, experts: 1 } },
  shuffled: { movingShapes: { shuffleCaptions: true } },
};

test('on 4 ranks, two experts have a lower validation loss than one expert and than shuffled captions, with every seed', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  for (const seed of SEEDS) {
    const losses: number[] = [];
    for (const changes of Object.values(RUNS)) {
      const run = await job.train({ ...RECIPE, ...changes, seed });
      await run.step(STEPS);
      losses.push((await run.evaluate()).loss);
      await run.dispose();
    }
    const [two = Number.NaN, one = 0, shuffled = 0] = losses;
    const found = `seed ${seed}: ${Object.keys(RUNS).map((name, i) => `${name} ${losses[i]?.toFixed(4)}`)}`;
    context.diagnostic(found);
    assert.ok(two < one && two < shuffled, found);
  }
});

/** The sizes of the small Wan that the library has by name. */
function wanTiny(): DitConfig {
  const shape = modelShape({ model: 'wan-tiny' });
  return shape.kind === 'dit' ? shape : assert.fail(shape.kind);
}

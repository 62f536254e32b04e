import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { launch } from '../../../src/session/run/launch';
import { lossesOf, testFolder } from './export-fixture';
import { OWN_MODELS, type OwnTraining } from './own-models';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
const skip = python === '' && 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';

const WORLDS = [1, 2, 4];
const STRATEGIES = ['NO_SHARD', 'FULL_SHARD'] as const;
const STEPS = 4;

let job: { readonly world: number; readonly running: Job } | undefined;
after(async () => {
  await job?.running.shutdown();
});

/** Returns a job of this number of ranks; one job runs at a time. */
async function jobOf(world: number): Promise<Job> {
  if (job?.world === world) return job.running;
  await job?.running.shutdown();
  job = undefined;
  job = { world, running: await launch({ ranks: world, blas: 'none' }) };
  return job.running;
}

/** Trains here and by torchrun, and returns both runs' losses. */
async function bothLosses(
  folder: string,
  training: OwnTraining,
  { world, strategy }: { readonly world: number; readonly strategy: (typeof STRATEGIES)[number] },
): Promise<{ readonly here: readonly number[]; readonly there: readonly number[] }> {
  const settings = { steps: STEPS, optimizer: { lr: 0.01 }, parallel: { ...training.parallel, strategy } };
  const input = { ...training, ...settings } as never; // each training has its own types of outputs and batches
  const run = await (await jobOf(world)).train(input);
  try {
    const out = join(folder, 'bundle');
    await run.export({ to: 'torchrun', out });
    await run.step(STEPS);
    return { here: run.losses, there: await lossesOf(out) };
  } finally {
    await run.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Each model in one of six places; SHARDLAB_ALL_PLACES=1 runs each model in all of them. */
const PLACES = WORLDS.flatMap((world) => STRATEGIES.map((strategy) => ({ world, strategy })));
const isWhole = process.env.SHARDLAB_ALL_PLACES === '1';

for (const [at, place] of PLACES.entries()) {
  for (const [i, [name, training]] of Object.entries(OWN_MODELS).entries()) {
    if (!isWhole && i % PLACES.length !== at) continue;
    const where = `${place.world} ranks under ${place.strategy}`;
    test(`torchrun trains ${name} on ${where} with the losses of the run here`, { skip }, async (context) => {
      const { here, there } = await bothLosses(testFolder(context), training, place);
      assert.equal(there.length, STEPS);
      for (const [step, loss] of here.entries())
        assert.ok(
          Math.abs(loss - (there[step] ?? 0)) <= 1e-5,
          `step ${step + 1}: ${loss} here, ${there[step]} there`,
        );
    });
  }
}

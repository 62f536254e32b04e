import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertSameLosses, IS_WHOLE, lossesOf, oneJob, PLACES, testFolder } from './export-fixture';
import { OWN_MODELS, type OwnTraining } from './own-models';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
const skip = python === '' && 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';

const STEPS = 4;
const jobOf = oneJob();

/** Trains here and by torchrun, and returns both runs' losses. */
async function bothLosses(
  folder: string,
  training: OwnTraining,
  { world, strategy }: (typeof PLACES)[number],
): Promise<{ readonly here: readonly number[]; readonly there: readonly number[] }> {
  const settings = { steps: STEPS, optimizer: { lr: 0.01 }, parallel: { ...training.parallel, strategy } };
  const input = { ...training, ...settings } as never; // each training has its own types of outputs and batches
  const run = await (await jobOf({ ranks: world, blas: 'none' })).train(input);
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

// Each model in one of six places; SHARDLAB_ALL_PLACES=1 runs each model in all of them.
for (const [at, place] of PLACES.entries()) {
  for (const [i, [name, training]] of Object.entries(OWN_MODELS).entries()) {
    if (!IS_WHOLE && i % PLACES.length !== at) continue;
    const where = `${place.world} ranks under ${place.strategy}`;
    test(`torchrun trains ${name} on ${where} with the losses of the run here`, { skip }, async (context) => {
      const { here, there } = await bothLosses(testFolder(context), training, place);
      assertSameLosses(here, there, STEPS);
    });
  }
}

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { LaunchOptions } from '../../src/launch/options';
import { missing, startSlurm } from './slurm';
import { GPT, launchTorch } from './torch-fixture';

/** Trains on two ranks; returns the losses. Each failure of one rank is recovered, which makes the groups anew. */
async function train(context: TestContext, options: Partial<LaunchOptions>): Promise<readonly number[]> {
  const job = await launchTorch(context, { ranks: 2, ...options });
  for (let failure = 0; failure < 5; failure++)
    await assert.rejects(job.on(0).python('1 / 0'), /ZeroDivisionError/);
  const run = await job.train({ model: GPT, batch: 2, seed: 5, parallel: { strategy: 'FULL_SHARD' } });
  await run.step(3);
  await job.shutdown();
  return run.losses;
}

test('ranks that mpirun starts train as those of torchrun do', async (context) => {
  if (missing(['mpirun']).length > 0) return context.skip('mpirun is not installed (Debian: openmpi-bin)');
  // Open MPI refuses root without these.
  for (const name of ['OMPI_ALLOW_RUN_AS_ROOT', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM']) process.env[name] = '1';
  const expected = await train(context, {});
  assert.deepEqual(await train(context, { launcher: 'mpirun' }), expected);
});

test('ranks that Slurm starts train as those of torchrun do', async (context) => {
  const refused = await startSlurm(context);
  if (refused !== undefined) return context.skip(refused);
  const expected = await train(context, {});
  const slurm = { launcher: 'slurm', partition: 'debug', interface: 'lo' } as const;
  assert.deepEqual(await train(context, slurm), expected);
});

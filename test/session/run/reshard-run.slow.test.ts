import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { Job } from '../../../src/session/run/job';
import type { ReshardChange } from '../../../src/session/run/reshard';
import { valuesHere } from '../../support/cases';
import { launchForAll } from '../job-fixture';

// No size is divisible by the number of ranks.
const MODEL = { kind: 'gpt', layers: 2, dim: 10, heads: 2, vocab: 257, seq: 7 } as const;
const CONFIG: TrainConfigInput = { model: MODEL, data: 'synthetic', batch: 2 };
const STEPS = 3;

const shared = launchForAll({ ranks: 3 });

test('a run in resharding', async (context) => {
  const job = shared();

  await context.test(
    'continues after a change of strategy with the losses of an undisturbed run',
    async () => {
      const changes = [
        ['FULL_SHARD', 'SHARD_GRAD_OP'],
        ['SHARD_GRAD_OP', 'FULL_SHARD'],
        ['FULL_SHARD', 'NO_SHARD'],
        ['NO_SHARD', 'FULL_SHARD'],
      ] as const;
      for (const [from, to] of valuesHere(changes, [0, 3])) {
        const config: TrainConfigInput = { ...CONFIG, parallel: { strategy: from } };
        const { losses, undisturbed, report } = await reshardedBesideUndisturbed(job, config, {
          strategy: to,
        });
        assert.match(
          report,
          new RegExp(`^${from} on 3 ranks → ${to} on 3 ranks: 84 tensors, .* all bit-equal; `),
        );
        // Sums of a few float32 numbers in another order: a few units in the last place of the loss.
        losses.forEach((loss, i) => {
          assert.ok(
            Math.abs(loss - (undisturbed[i] ?? 0)) <= 1e-6,
            `${from} to ${to}: ${losses} ${undisturbed}`,
          );
        });
      }
    },
  );

  await context.test(
    'moves to fewer and more ranks with its states, and its records have the number of ranks of each step',
    async () => {
      const run = await job.train(CONFIG, { ranks: 2 });
      const other = await job.train(CONFIG, { ranks: 2 });
      await Promise.all([run.step(2)]);
      await other.step(2);
      assert.match(inspect(run), /^FULL_SHARD on 2 ranks/);
      await run.reshard({ world: 3 });
      assert.equal(run.world, 3);
      await run.step(2);
      await run.reshard({ world: 1, strategy: 'NO_SHARD' });
      await run.step();
      const report = await run.reshard({ world: 2, strategy: 'FULL_SHARD', wrap: 'root' });
      assert.ok(report.movedBytes > 0 && report.comparedBytes >= report.bytes);
      await run.step(2);
      assert.deepEqual(
        [...run.records].map(({ step, rank, world }) => `${step}:${rank}/${world}`),
        '1:0/2 1:1/2 2:0/2 2:1/2 3:0/3 3:1/3 3:2/3 4:0/3 4:1/3 4:2/3 5:0/1 6:0/2 6:1/2 7:0/2 7:1/2'.split(
          ' ',
        ),
      );
      assert.deepEqual(run.losses.slice(0, 2), other.losses);
      assert.match(run.memory().subtitle, /2 ranks .*step 7 of FULL_SHARD/);
      assert.match(run.memory({ step: 5 }).subtitle, /step 5 of NO_SHARD/);
      assert.match(run.memory({ step: 4 }).subtitle, /3 ranks .*step 4 of FULL_SHARD/);
      run.loss();
      run.comm();
      await Promise.all([run.dispose(), other.dispose()]);
    },
  );

  await context.test('is unchanged after an invalid change', async () => {
    const run = await job.train(CONFIG);
    const undisturbed = await job.train(CONFIG);
    await run.step(1);
    for (const [change, message] of [
      [{}, /takes the settings that change/],
      [{ stratgy: 'NO_SHARD' }, /'stratgy'; did you mean 'strategy'\?/],
      [{ strategy: 'ZERO3' }, /did you mean "FULL_SHARD"/],
      [{ world: 4 }, /world is 4, but this job has 3 ranks/],
      [{ wrap: { layerCls: ['Blok'] } }, /Blok/],
    ] as const) {
      // Wrong on purpose, as in a cell that is not type-checked.
      await assert.rejects(run.reshard(change as ReshardChange), { code: 'CONFIG', message });
    }
    await run.step(1);
    await undisturbed.step(2);
    assert.deepEqual(run.losses, undisturbed.losses);
    await assert.rejects(Promise.all([run.reshard({ wrap: 'root' }), run.step()]), {
      code: 'CONFIG',
      message: /already resharding/,
    });
    await Promise.all([run.dispose(), undisturbed.dispose()]);
    await assert.rejects(run.reshard({ wrap: 'root' }), { code: 'CLOSED' });
  });

  await context.test('lists its units, before and after', async () => {
    const run = await job.train(CONFIG);
    assert.deepEqual(
      (await run.units()).rows.map(({ module, strategy, numShards }) => [module, strategy, numShards]),
      [
        ['root', 'FULL_SHARD', 3],
        ['blocks.0', 'FULL_SHARD', 3],
        ['blocks.1', 'FULL_SHARD', 3],
      ],
    );
    await run.reshard({ wrap: 'root', world: 2, strategy: 'SHARD_GRAD_OP' });
    assert.deepEqual(
      (await run.units()).rows.map(({ module, strategy, numShards }) => [module, strategy, numShards]),
      [['root', 'SHARD_GRAD_OP', 2]],
    );
    await run.reshard({ strategy: 'NO_SHARD' });
    await assert.rejects(run.units(), { code: 'CONFIG', message: /NO_SHARD on 2 ranks has no units/ });
    await run.dispose();
  });

  await context.test('leaves no bytes behind', async () => {
    const held = (): Promise<number[]> => job.on('all').run(({ engine }) => engine.memory.bytes);
    const before = await held();
    const run = await job.train(CONFIG);
    await run.step(2);
    for (const strategy of ['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const)
      await run.reshard({ strategy });
    const last = run.records.newest().at(-1);
    await run.step(1);
    const record = run.records.newest().at(-1);
    assert.equal(record?.memory.restBytes, last?.memory.restBytes);
    await run.dispose();
    assert.deepEqual(await held(), before);
  });
});

/** Losses of a run that is resharded after some steps, and of one that is not. */
async function reshardedBesideUndisturbed(job: Job, config: TrainConfigInput, change: ReshardChange) {
  const undisturbed = await job.train(config);
  await undisturbed.step(2 * STEPS);
  const run = await job.train(config);
  await run.step(STEPS);
  const report = await run.reshard(change);
  await run.step(STEPS);
  const losses = { losses: run.losses, undisturbed: undisturbed.losses };
  await Promise.all([run.dispose(), undisturbed.dispose()]);
  return { ...losses, report: inspect(report) };
}

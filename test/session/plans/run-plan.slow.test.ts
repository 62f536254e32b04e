import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type * as tf from '../../../src/core/tf';
import type { RankScope } from '../../../src/launch/rank/scope';
import { plan } from '../../../src/session/notebook/plan';
import { shareJob } from '../job-fixture';

const job = shareJob({ ranks: 2 });
const PLACE = { on: 'H100-80G', gpus: 16 } as const;

test("a run's plan at another place is the plan of its config there, to the digit, under several strategies", async () => {
  const configs: readonly TrainConfigInput[] = [
    { parallel: { strategy: 'NO_SHARD' } },
    { parallel: { strategy: 'ZERO_1' }, mixedPrecision: 'bf16', accumulation: 2 },
    { parallel: { strategy: 'SHARD_GRAD_OP' }, activationCheckpointing: 'full' },
    {
      parallel: { strategy: 'FULL_SHARD', limitAllGathers: false },
      optimizer: { kind: 'sgd', momentum: 0.9 },
    },
    { parallel: { strategy: 'FULL_SHARD', tp: 2 } },
    { parallel: { strategy: 'FULL_SHARD', pp: 2, microbatches: 2 } },
  ];
  for (const settings of configs) {
    const config = { model: 'tiny', ...settings } as const;
    const run = await job().train(config);
    const [own, same] = [run.plan(PLACE), plan(config, PLACE)];
    assert.deepEqual([own.layout, own.prediction, own.assumed], [same.layout, same.prediction, same.assumed]);
    assert.equal(own.toText(), same.toText());
    assert.deepEqual(run.plan('H100-80G').prediction, plan(config, { ...PLACE, gpus: 2 }).prediction);
    const [counted, dry] = [PLACE, PLACE].map((place, i) =>
      i === 0 ? run.plan(place, { count: true }) : plan(config, place, { count: true }),
    );
    assert.deepEqual([counted?.peak, counted?.beside], [dry?.peak, dry?.beside]);
    await run.dispose();
  }
});

test("a run's plan follows a reshard, and counts a model of the user's own", async () => {
  const run = await job().train({ model: 'tiny', parallel: { strategy: 'NO_SHARD' } });
  await run.step(2);
  await run.reshard({ strategy: 'FULL_SHARD' });
  const sharded = { model: 'tiny', parallel: { strategy: 'FULL_SHARD' } } as const;
  assert.deepEqual(run.plan(PLACE).prediction, plan(sharded, PLACE).prediction);
  await run.dispose();
  const config = {
    model: ({ nn }: RankScope) => new nn.Linear(4, 4),
    loss: (output: tf.Tensor, _: unknown, { tf }: RankScope) => tf.sum(output),
    data: ({ tf }: RankScope) => ({ x: tf.zeros([2, 4]) }),
  };
  const own = await job().train(config as never);
  const [mine, same] = [own.plan(PLACE), plan(config as object, PLACE)];
  assert.deepEqual([mine.layout, mine.prediction], [same.layout, same.prediction]);
  assert.deepEqual(plan(mine.config as object, mine.place).prediction, same.prediction);
  await own.dispose();
});

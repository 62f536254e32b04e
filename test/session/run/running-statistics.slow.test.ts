import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tensor } from '@tensorflow/tfjs';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Run } from '../../../src/session/run/run';
import { valuesHere } from '../../support/cases';
import { differences, readCheckpoint } from '../../training/checkpoint/state-files';
import { launchFor, temporaryFolder } from '../job-fixture';

const ROWS = 30;
const SHAPE = [2, 4, 4];
/** Images with another mean per channel, and a class. */
const DATA = {
  x: {
    shape: [ROWS, ...SHAPE],
    values: Float32Array.from(
      { length: ROWS * 32 },
      (_, i) => Math.sin(i * i) + 2 * (Math.floor(i / 16) % 2),
    ),
  },
  y: Int32Array.from({ length: ROWS }, (_, i) => i % 3),
  validation: 0.25,
};

/** An image model with running statistics, and with a constant that checkpoints do not have. */
const CONFIG = {
  model: ({ nn, tf }: RankScope) => {
    class Net extends nn.Module {
      readonly conv = new nn.Conv2d(2, 5, 3, { padding: 1, bias: false });
      readonly norm = new nn.BatchNorm2d(5);
      readonly scale = new nn.Buffer(tf.tensor1d([0.5]), { persistent: false });
      readonly head = new nn.Linear(5, 3);
      forward(x: Tensor) {
        const h = tf.relu(this.norm.apply(this.conv.apply(x)));
        return this.head.apply(tf.mul(tf.mean(h, [2, 3]), this.scale.tensor));
      }
    }
    return new Net();
  },
  loss: (output: Tensor, { y }: { readonly y: Tensor }, { nn }: RankScope) =>
    nn.functional.crossEntropy(output, y),
  data: DATA,
  batch: 2,
  optimizer: { lr: 1e-2 },
};

const PLACES = [
  { strategy: 'NO_SHARD', world: 1 },
  { strategy: 'NO_SHARD', world: 3 },
  { strategy: 'FULL_SHARD', world: 3 },
  { strategy: 'HYBRID_SHARD', world: 4, mesh: { dpReplicate: 2, dpShard: 2 } },
  { strategy: 'ZERO_1', world: 2 },
] as const;

test('running statistics', async (context) => {
  const { path: folder } = temporaryFolder(context);
  const job = await launchFor(context, { ranks: 4 });
  const held = () => job.on('all').run(({ engine }) => engine.memory.bytes);
  const trained = async ({ world, ...parallel }: (typeof PLACES)[number]) =>
    job.train({ ...CONFIG, parallel: { ...parallel, wrap: { modules: ['conv'] } } } as object, {
      ranks: world,
    });
  /** Saves a run and returns all its arrays. */
  const saved = async (run: Run, name: string) => {
    await run.save(join(folder, name));
    return readCheckpoint(join(folder, name));
  };

  for (const [number, place] of valuesHere(PLACES.slice(1, 3), [1]).entries()) {
    await context.test(
      `of ${place.strategy} on ${place.world} are equal after a load and a reshard to other places`,
      async () => {
        const before = await held();
        const run = await trained(place);
        await run.step(3);
        const expected = await saved(run, `from-${number}`);
        assert.deepEqual([...(expected.get('norm.num_batches_tracked') ?? [])], [3]);
        assert.ok(expected.has('norm.running_mean') && expected.has('norm.running_var'));
        let loss: number | undefined;
        for (const to of valuesHere(PLACES, [1, 3, 4])) {
          const what = `${to.strategy} on ${to.world}`;
          const loaded = await trained(to);
          await loaded.load(join(folder, `from-${number}`));
          assert.deepEqual(differences(await saved(loaded, 'loaded'), expected), [], what);
          const evaluation = await loaded.evaluate();
          loss ??= evaluation.loss;
          assert.equal(evaluation.rows, 7);
          assert.ok(Math.abs(evaluation.loss - loss) < 1e-6, `${what}: ${evaluation.loss}, ${loss}`);
          const next = PLACES[(PLACES.indexOf(to) + 2) % PLACES.length] ?? place;
          await loaded.reshard(next);
          assert.deepEqual(differences(await saved(loaded, 'resharded'), expected), [], `from ${what}`);
          assert.ok(Math.abs((await loaded.evaluate()).loss - loss) < 1e-6, `resharded from ${what}`);
          await loaded.step();
          await loaded.dispose();
        }
        await run.dispose();
        assert.deepEqual(await held(), before);
      },
    );
  }
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { shareJob } from '../../session/job-fixture';
import { HAS_ALL_CASES } from '../../support/cases';
import { testData } from '../../support/paths';

/** The wrapper of the model, or none. */
const AROUND: readonly string[] = [
  'none',
  'DDP',
  'fullyShard',
  'fullyShard, the root alone',
  'fullyShard as ZeRO-1',
  'fullyShard as ZeRO-2',
  'FSDP',
  'FSDP with SHARD_GRAD_OP',
];

/** How a cell asks for gradients. */
const FORMS = ['gradients', 'loss.backward()'] as const;

type Recorded = Readonly<
  Record<string, Readonly<Record<'none' | 'ddp' | 'fullyShard', readonly number[][]>>>
>;

// Written by test/data/own_model_reference.py.
const { losses } = JSON.parse(readFileSync(testData('own_model_reference.json'), 'utf8')) as {
  losses: Recorded;
};

const ALL = AROUND.flatMap((around) => FORMS.map((form) => [around, form] as const));
/** In `npm test`, each wrapper once, with one of the forms. */
const HERE: Readonly<Record<number, typeof ALL>> = HAS_ALL_CASES
  ? { 1: ALL, 2: ALL, 4: ALL }
  : { 4: ALL.filter((_, i) => i % 4 === 0 || i % 4 === 3) };

for (const [world, ways] of Object.entries(HERE).map(([key, value]) => [Number(key), value] as const)) {
  const shared = shareJob({ ranks: world });

  test(`a module of 15 lines trains as torch's does on ${world} ranks, with and without wrappers`, async () => {
    const job = shared();
    for (const [around, form] of ways) {
      const found = await job.on('all').run(
        (scope, wrapper, isEager): number[] => {
          const { nn, tf, rank, worldSize, optim, gradients, dist, fullyShard, DDP, FSDP } = scope;
          class Net extends nn.Module {
            readonly a = new nn.Linear(7, 13);
            readonly b = new nn.Linear(13, 1);
            forward(x: import('@tensorflow/tfjs').Tensor) {
              return this.b.apply(tf.relu(this.a.apply(x)));
            }
          }
          // As in model_reference.py.
          const scattered = (from: number, count: number, number: number, size: number): Float32Array =>
            Float32Array.from({ length: count }, (_, i) => {
              const first = Math.imul((from + i) * 7919 + number * 104729 + 17, 2654435761) >>> 0;
              const second = Math.imul(first ^ (first >>> 15), 2654435761) >>> 0;
              return size * (second / 2 ** 32 - 0.5);
            });
          const model = new Net();
          model.parameters().forEach((parameter, place) => {
            parameter.defer({
              fill: (start, target) => target.set(scattered(start, target.length, place, 1)),
            });
          });
          const parts = wrapper === 'fullyShard' ? [model.a, model.b, model] : [model];
          const strategy = wrapper === 'fullyShard as ZeRO-1' ? 'ZERO_1' : 'ZERO_2';
          if (wrapper.startsWith('fullyShard as')) fullyShard(model, { strategy });
          else if (wrapper.startsWith('fullyShard')) for (const part of parts) fullyShard(part);
          const options = wrapper === 'FSDP' ? {} : { shardingStrategy: 'SHARD_GRAD_OP' as const };
          if (wrapper === 'DDP') DDP(model);
          const trained = wrapper.startsWith('FSDP') ? FSDP(model, options) : model;
          const optimizer = optim.adamW(trained, { lr: 1e-2 });
          const rows = 8 / worldSize;
          return Array.from({ length: 12 }, (_, step) => {
            const part = (width: number, number: number) =>
              tf.tensor2d(scattered(rank * rows * width, rows * width, number, 4), [rows, width]);
            const [x, y] = [part(7, 100 + 2 * step), part(1, 101 + 2 * step)];
            const lossOf = () => tf.losses.meanSquaredError(y, trained(x));
            const pass = isEager ? null : gradients(lossOf);
            const mean = pass?.loss ?? tf.tidy(lossOf);
            if (pass === null) mean.backward();
            else pass.backward();
            optimizer.step();
            optimizer.zeroGrad();
            if (wrapper !== 'none') dist.allReduce(mean, dist.ReduceOp.AVG);
            const [loss = Number.NaN] = mean.dataSync();
            tf.dispose([x, y, mean]);
            return loss;
          });
        },
        ...([around, form === 'loss.backward()'] as const),
      );
      const kind = around === 'none' ? 'none' : around === 'DDP' ? 'ddp' : 'fullyShard';
      const expected = losses[world]?.[kind] ?? [];
      found.forEach((ofRank, rank) => {
        ofRank.forEach((loss, step) => {
          const torch = expected[rank]?.[step] ?? Number.NaN;
          assert.ok(
            Math.abs(loss - torch) <= 1e-5 * Math.abs(torch),
            `${around}, ${form}, rank ${rank}, step ${step}: ${loss}, not ${torch}`,
          );
        });
      });
    }
  });
}

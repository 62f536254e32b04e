import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankScope } from '../../../src/launch/rank/scope';
import { launchFor, resultsOf, runCell } from '../job-fixture';

/** A scope with variables of cells, which only the kernel's compiler knows. */
type With<T> = RankScope & T;

test('values cross between the notebook and the ranks', async (context) => {
  const job = await launchFor(context, { ranks: 2 });

  await context.test('put declares variables in ranks', async () => {
    await job.put({
      X: [
        [1, 2],
        [3, 4],
      ],
      name: 'rows',
      y: Float32Array.of(1, 2),
    });
    assert.deepEqual(resultsOf(await runCell(job, '[X[1][0] + rank, name, y.length, y.constructor.name]')), {
      0: "[ 3, 'rows', 2, 'Float32Array' ]",
      1: "[ 4, 'rows', 2, 'Float32Array' ]",
    });
    await job.on(1).put({ X: 5 });
    assert.deepEqual(await job.get('X'), [
      [
        [1, 2],
        [3, 4],
      ],
      5,
    ]);
    await runCell(job, 'X = 6');
    await job.put({ X: 7 });
    assert.deepEqual(resultsOf(await runCell(job, 'X')), { 0: '7', 1: '7' });
  });

  await context.test('get returns the variables of cells in rank order, and tensors as arrays', async () => {
    await runCell(job, 'let losses = [rank, 0.5]; const weights = tf.tensor([[rank, 2]]); class Net {}');
    assert.deepEqual(await job.get('losses'), [
      [0, 0.5],
      [1, 0.5],
    ]);
    assert.deepEqual(await job.on('1').get('weights'), [[[1, 2]]]);
    assert.deepEqual(await job.get('worldSize'), [2, 2]);
  });

  await context.test('functions see the variables of cells, by name and in their scope', async () => {
    const inScope = await job.on('all').run((scope) => {
      const { losses, rank, missing } = scope as With<{ losses: number[]; missing?: number }>;
      return [losses[0], rank, missing];
    });
    assert.deepEqual(inScope, [
      [0, 0, undefined],
      [1, 1, undefined],
    ]);
    const byName = await job.on('all').run(new Function('return losses[1]') as () => number);
    assert.deepEqual(byName, [0.5, 0.5]);
    const own = await job.on(0).run((scope) => [Object.keys(scope).includes('tf'), 'then' in scope]);
    assert.deepEqual(own, [[true, false]]);
  });

  await context.test('what cannot be put or read is named', async () => {
    for (const [values, message] of [
      [{ f: [() => 1] }, /job\.put: f\[0\] is a function, which cannot be sent/],
      [new Map([['a', 1]]), /put takes an object of values by name/],
      [{ 'a b': 1 }, /"a b" cannot be the name/],
      [{ class: 1 }, /"class" cannot be the name/],
      [[1], /put takes an object of values by name/],
      [{ tf: 1 }, /cannot replace tf, which every rank has/],
    ] as const) {
      await assert.rejects(job.put(values as never), { code: 'CONFIG', message });
    }
    await assert.rejects(job.get('nothing'), {
      code: 'CONFIG',
      message: /rank 0 has no variable nothing.*job\.put\(\{ nothing \}\)/,
    });
    await assert.rejects(job.get('losses[0]'), { code: 'CONFIG', message: /cannot be the name/ });
    await assert.rejects(job.get('Net'), {
      code: 'CONFIG',
      message: /job\.get: Net is a function, which cannot be sent/,
    });
    assert.deepEqual(await job.on(0).run(({ tf }) => typeof tf.ones), ['function']);
  });

  await context.test('neither put nor get is a step', () => {
    assert.equal(job.losses.filter(Number.isFinite).length, 0);
  });
});

import assert from 'node:assert/strict';
import test from 'node:test';
import { initializeModelParallel } from '../../../src/wire/dist/model-parallel';
import { standIn } from './group-stand-in';

const SIXTEEN = Array.from({ length: 16 }, (_, rank) => rank);

test("ranks are divided in Megatron's order", () => {
  const sizes = { tensorModelParallelSize: 2, pipelineModelParallelSize: 2, contextParallelSize: 2 };
  const parallel = initializeModelParallel(standIn(SIXTEEN, 5), sizes);
  // Megatron-LM with these sizes: rank 5 has tp 1, cp 0, dp 1, pp 0.
  assert.deepEqual(parallel.mesh.coordinate, [0, 1, 0, 1]);
  const { tp, pp, cp, dp, dpCp } = parallel;
  assert.deepEqual(
    [tp, cp, dp, pp, dpCp].map(({ ranks }) => ranks),
    [
      [4, 5],
      [5, 7],
      [1, 5],
      [5, 13],
      [1, 3, 5, 7],
    ],
  );
  assert.deepEqual([parallel.isFirstStage, parallel.isLastStage], [true, false]);
});

test('experts are divided over ranks that hold the same layers', () => {
  const sizes = { tensorModelParallelSize: 2, expertModelParallelSize: 4 };
  const { ep, edp, dp } = initializeModelParallel(standIn(SIXTEEN, 10), sizes);
  assert.deepEqual(dp.ranks, [0, 2, 4, 6, 8, 10, 12, 14]);
  assert.deepEqual(ep.ranks, [8, 10, 12, 14]);
  assert.deepEqual(edp.ranks, [2, 10]);
  const without = initializeModelParallel(standIn(SIXTEEN, 10), { tensorModelParallelSize: 2 });
  assert.deepEqual([without.ep.ranks, without.edp.ranks], [[10], dp.ranks]);
  assert.deepEqual(initializeModelParallel(standIn([0, 1], 1), { contextParallelSize: 2 }).ep.ranks, [1]);
});

test('sizes that do not fit say what fits', () => {
  const group = standIn(SIXTEEN, 0);
  assert.throws(() => initializeModelParallel(group, { tensorModelParallelSize: 3 }), {
    code: 'MESH',
    message: /tp\(3\) x pp\(1\) x cp\(1\) = 3 does not divide the job's 16 ranks/,
  });
  assert.throws(() => initializeModelParallel(group, { expertModelParallelSize: 5 }), {
    code: 'MESH',
    message: /does not divide the 16 ranks that hold the same layers/,
  });
  assert.throws(() => initializeModelParallel(group, { contextParallelSize: 0 }), { code: 'CONFIG' });
  assert.throws(() => initializeModelParallel(group, { tensor_model_parallel_size: 2 } as object), {
    code: 'CONFIG',
    message: /is written tensorModelParallelSize here/,
  });
  // Megatron's arguments have an order too; a number without a name would have no effect.
  assert.throws(() => initializeModelParallel(group, 2 as unknown as object), {
    code: 'CONFIG',
    message: /takes options by name, not 2; the options are tensorModelParallelSize/,
  });
});

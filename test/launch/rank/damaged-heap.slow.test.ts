import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardlabError } from '../../../src/core/errors';
import { launchFor, runCell } from '../../session/job-fixture';

/** Makes C++ code forget a tensor, so that the next kernel on it aborts, as with a damaged heap. */
const TRAP = `const backend = tf.backend();
const x = tf.ones([4]);
if (rank === 1) backend.wasm.tfjs.disposeData(backend.dataIdMap.get(x.dataId).id);
tf.cosh(x).dataSync();`;

test('a rank with a trapped kernel computes no more, and the job says so', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const failed = async (js: string, cell: number, selection = '1'): Promise<string> => {
    const error = await runCell(job, js, cell, selection).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof ShardlabError, `ended with ${String(error)}`);
    assert.equal(error.code, 'ENGINE');
    return error.message;
  };
  const said =
    /\[rank 1\/2\] the engine's heap is damaged: the wasm kernel Cosh trapped in cell 3, line 4: Aborted.*job.shutdown\(\)/;
  assert.match(await failed(TRAP, 3, 'all'), said);
  for (const [i, js] of ['tf.add(1, 2)', 'tf.tensor1d([1])', 'x.dataSync()', 'tf.sum(x)'].entries())
    assert.match(await failed(js, 4 + i), said);
  await runCell(job, 'tf.cosh(tf.ones([2])).dataSync()', 9, '0');
  const states = (await job.status()).rows.map(({ state }) => String(state));
  assert.equal(states[0], 'idle');
  assert.match(
    states[1] ?? '',
    /^damaged \(the wasm kernel Cosh trapped in cell 3, line 4: Aborted.*launch again/,
  );
  assert.match(
    (await job.why()).text,
    /rank 1 is idle with a damaged heap \(the wasm kernel Cosh trapped.*launch again/,
  );
});

import assert from 'node:assert/strict';
import { seeded } from '../../../../src/core/random';
import * as tf from '../../../../src/core/tf';
import { RandomRows } from './random-rows';
import { differenceIn, type Row, resultsOf } from './rows';

/** tf.setBackend is slow, so that many rows run between two calls. */
const AT_ONCE = 500;

/** Compares `count` random calls on the current engine with tfjs's JavaScript backend; returns those that differ. */
export async function differencesOf(count: number, seed: number): Promise<string[]> {
  const rows = new RandomRows(seeded(seed, 'edges'));
  const own = tf.getBackend();
  const { numTensors } = tf.memory(); // other test files of this process may have left some
  const wrong: string[] = [];
  for (let done = 0; done < count; done += AT_ONCE) {
    const some = Array.from({ length: AT_ONCE }, () => rows.row());
    await tf.setBackend('cpu');
    const known = some.map((row): Row => {
      const out = resultsOf(row);
      return { ...row, tol: 1e-5, ...(out === undefined ? {} : { out }) };
    });
    await tf.setBackend(own);
    for (const row of known) {
      const difference = differenceIn(row);
      if (difference !== null) wrong.push(`${JSON.stringify({ ...row, out: undefined })} ${difference}`);
    }
  }
  assert.equal(tf.memory().numTensors, numTensors, 'tensors were not freed');
  return wrong;
}

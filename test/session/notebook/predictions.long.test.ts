import assert from 'node:assert/strict';
import { test } from 'node:test';
import { predictions } from '../../../src/session/notebook/predictions';

/** Large enough for a machine that others use too; docs/explanation/benchmarks.md has the measured errors. */
const MOST_MEAN_ERROR = 0.6;
const MOST_ERROR = 2;

test('runs on this machine hold and receive exactly the predicted bytes, and take about the predicted time on a shaped link or with a divided model', async (t) => {
  const found = await predictions({ worlds: [1, 2, 4], links: [{ gbit: 2, latencyUs: 50 }] });
  t.diagnostic(String(found));
  assert.equal(found.runs.length, 4 + 8 + 8 + 18);
  for (const { name, predictedBytes, measuredBytes, isSameTraffic } of found.runs) {
    assert.equal(predictedBytes, measuredBytes, name);
    assert.ok(isSameTraffic, name);
  }
  for (const runs of [
    found.runs.filter(({ link }) => link !== null),
    found.runs.filter(({ layout }) => layout !== null),
  ]) {
    const mean = runs.reduce((sum, { error }) => sum + Math.abs(error), 0) / runs.length;
    assert.ok(mean < MOST_MEAN_ERROR, `mean error ${mean}`);
    for (const { name, error } of runs) assert.ok(Math.abs(error) < MOST_ERROR, `${name}: ${error}`);
  }
  assert.ok(found.figure().data.length > 0);
});

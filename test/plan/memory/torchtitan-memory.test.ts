import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layoutOf } from '../../../src/plan/layout-of';
import { predictMemory } from '../../../src/plan/memory/predict-memory';
import published from '../../data/torchtitan-memory.json';

type Row = Readonly<Record<string, unknown>> & { readonly name: string; readonly gib: number };

const PLACE = { hardware: 'H100-96G-grand-teton', compileLoss: false };

/** Returns the prediction of a row, GiB, and its relative error. */
function predictionOf({ name: _, gib, parallel, ...request }: Row, place: object) {
  const layers = { strategy: 'FULL_SHARD', stack: 'fsdp2', ...(parallel as object) };
  const { peak } = predictMemory(layoutOf({ attention: 'flash', ...place, ...request, parallel: layers }));
  return { peak, error: peak.value / gib - 1 };
}

/** Pipelines of 405B: the prediction is too small, for reasons that we do not know (docs/planner.md). */
const isPipeline = ({ name }: Row): boolean => /^table [56]/.test(name);

test("the memory of TorchTitan's published runs of Llama 3.1 8B and 70B is predicted within 5%", (t) => {
  const rows = published.rows.filter((row) => !isPipeline(row));
  assert.equal(rows.length, 12);
  for (const row of rows) {
    const { peak, error } = predictionOf(row, PLACE);
    t.diagnostic(
      `${row.name}: ${row.gib} GiB, predicted ${peak.value.toFixed(1)}, ${(100 * error).toFixed(1)}%`,
    );
    assert.ok(Math.abs(error) < 0.05, row.name);
  }
});

test("the memory of TorchTitan's pipelines of Llama 3.1 405B is predicted 10 to 20% too small", (t) => {
  const rows = published.rows.filter(isPipeline);
  assert.equal(rows.length, 6);
  for (const row of rows) {
    const { peak, error } = predictionOf(row, PLACE);
    t.diagnostic(
      `${row.name}: ${row.gib} GiB, predicted ${peak.value.toFixed(1)}, ${(100 * error).toFixed(1)}%`,
    );
    assert.ok(error < -0.1 && error > -0.2, row.name);
  }
});

test('without expandable segments, the memory of TorchTitan is within the interval of the prediction', (t) => {
  for (const row of published.otherAllocator.rows) {
    const { peak, error } = predictionOf(row, { hardware: 'H200-141G' });
    t.diagnostic(
      `${row.name}: ${row.gib} GiB, predicted ${peak.value.toFixed(1)}, ${(100 * error).toFixed(1)}%`,
    );
    assert.ok(row.gib > peak.low && row.gib < peak.high, row.name);
  }
});

test('float8 parameters are gathered in float8 only if data parallelism shards them', () => {
  const rows = published.rows.filter(({ name }) => name.startsWith('table 6'));
  const peaks = rows.map((row) => predictionOf(row, PLACE).peak.value);
  const [one = 0, , four = 0, eight = 0] = peaks;
  assert.ok(Math.abs(four - one) < 0.5, 'cp 4 with data parallelism');
  // 16 layers of a stage, one byte more per parameter of a layer: the published difference is 7.8 GiB.
  assert.ok(eight - four > 6 && eight - four < 9, `${eight - four}`);
});

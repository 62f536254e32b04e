import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ADVICE_GRID, type AdviceGrid, testAdvice } from '../../src/planner/advice';
import { toyPredict } from './toy-predict';

const GRID: AdviceGrid = {
  models: ADVICE_GRID.models.filter(({ layers }) => [30, 40, 80].includes(layers ?? 0)),
  gpus: [8, 64],
  hardware: ['H100-80G'],
  nicGbit: [200],
};

test('each advice is tested where it applies, against the best layout that fits', () => {
  const findings = testAdvice(toyPredict, GRID);
  const of = (name: string) => findings.find((finding) => finding.name === name) ?? assert.fail(name);
  assert.ok(of('small').cases.every(({ params }) => params < 10e9));
  assert.ok(of('mid').cases.every(({ params }) => params >= 10e9 && params <= 100e9));
  assert.ok(of('layers').cases.every(({ layers }) => layers > 60));
  assert.ok(of('nvlink').cases.every(({ gpus }) => gpus > 8));
  for (const { cases, numHolds, summary } of findings) {
    assert.equal(numHolds, cases.filter(({ holds }) => holds).length);
    assert.ok(summary.startsWith(`holds in ${numHolds} of ${cases.length} cases`));
  }
});

test('under known rules true advice holds', () => {
  const findings = testAdvice(toyPredict, GRID);
  const holds = (name: string): boolean[] =>
    findings.find((finding) => finding.name === name)?.cases.map((one) => one.holds) ?? [];
  // In the toy model data parallelism is free, TP across nodes doubles the time, and more microbatches shrink bubbles.
  assert.deepEqual(holds('small'), [true, true]);
  assert.ok(holds('nvlink').every((held) => held));
  assert.ok(holds('accumulation').every((held) => held));
});

test('an advised layout that does not fit has no ratio, and the advice does not hold', () => {
  const none = testAdvice((layout) => ({ ...toyPredict(layout), fits: layout.pp === 1 }), GRID);
  const layers = none.find(({ name }) => name === 'layers') ?? assert.fail();
  assert.ok(layers.cases.length > 0);
  assert.ok(layers.cases.every(({ ratio, advised, holds }) => ratio === null && advised === null && !holds));
});

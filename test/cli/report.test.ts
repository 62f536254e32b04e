import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HeadlessRun } from '../../src/cli/run/headless';
import { runReport } from '../../src/cli/run/report';
import { parseTrainConfig } from '../../src/config/train-config';
import { memoryAtPeak, totalBytes } from '../../src/ledger/memory';
import type { StepResult } from '../../src/training/step-result';
import { simulateRanks } from '../ledger/simulated-step';

const WORLD = 2;
const spans = { data: 0, forward: 0, backward: 0, loss: 0, optimizer: 0 };

function result(step: number, seconds: number): StepResult {
  return { step, loss: 8 - step, gradNorm: 1, lr: 1e-3, skipped: false, tokens: 512, seconds, spans };
}

const seconds = [9, 8, 0.2, 0.4, 0.3];
const steps = [1, 2].map((step) => simulateRanks({ world: WORLD, strategy: 'FULL_SHARD', step }));
const run: HeadlessRun = {
  config: parseTrainConfig({ parallel: { strategy: 'FULL_SHARD' } }),
  world: WORLD,
  engine: 'wasm',
  blas: 'none',
  numParams: 1000,
  results: seconds.map((time, i) => result(i + 1, time)),
  numProfiled: 0,
  records: steps.flat(),
  lastStep: steps.at(-1) ?? [],
  maxRssBytes: 300 * 2 ** 20,
};

test('speed is computed from the median step, without two warm-up steps', () => {
  const report = runReport(run);
  assert.equal(report.step_ms, 300);
  assert.equal(report.tokens_per_s, Math.round(512 / 0.3));
  assert.deepEqual(report.losses, [7, 6, 5, 4, 3]);
  assert.equal(report.rss_mb_max, 300);
});

test('a run of two steps also has a speed', () => {
  const report = runReport({ ...run, results: run.results.slice(0, 2) });
  assert.equal(report.step_ms, 8500);
});

test('the speed leaves out profiled steps', () => {
  const report = runReport({ ...run, numProfiled: 2 });
  assert.equal(report.step_ms, 200);
});

test('memory by cause adds up to the peak of the rank and step with the most memory', () => {
  const { memory } = runReport(run);
  const highest = steps.flat().reduce((a, b) => (b.memory.peakBytes > a.memory.peakBytes ? b : a));
  assert.equal(memory.peak_bytes, highest.memory.peakBytes);
  const sum = Object.values(memory.by_cause).reduce((total, bytes) => total + bytes, 0);
  assert.equal(sum, totalBytes(memoryAtPeak(highest)));
  assert.deepEqual(
    memory.per_rank.map(({ rank }) => rank),
    [0, 1],
  );
});

test('communication is the traffic of one rank in the last step', () => {
  const { comm } = runReport(run);
  const wire = run.lastStep.map(({ collectives }) =>
    collectives.reduce((sum, { wireBytes }) => sum + wireBytes, 0),
  );
  assert.equal(comm.wire_bytes, Math.max(...wire));
  const causes = new Set(run.lastStep[0]?.collectives.map(({ cause }) => cause));
  assert.deepEqual(new Set(Object.keys(comm.bytes_by_cause)), causes);
});

test('a run without steps has no memory, no communication and no losses', () => {
  const report = runReport({ ...run, results: [], records: [], lastStep: [] });
  assert.equal(report.memory.peak_bytes, 0);
  assert.equal(report.comm.wire_bytes, 0);
  assert.deepEqual(report.losses, []);
});

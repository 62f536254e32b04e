import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { parseTrainConfig } from '../../../src/config/train-config';
import { commCauses } from '../../../src/figures/comm-causes';
import { commTimeline } from '../../../src/figures/comm-timeline';
import type { Figure } from '../../../src/figures/figure';
import { memoryFigure } from '../../../src/figures/memory-figure';
import { processTable } from '../../../src/figures/process-table';
import { compareRuns } from '../../../src/figures/run-figures';
import type { RunView } from '../../../src/figures/run-view';
import type { StepRecord } from '../../../src/ledger/record';
import { SpillFile } from '../../../src/ledger/spill-file';
import { viewOf } from '../../../src/session/run/figures';
import { RunHistory } from '../../../src/session/run/history';
import { simulateRanks } from '../../ledger/simulated-step';

const WORLD = 2;
const config = parseTrainConfig({ parallel: { strategy: 'FULL_SHARD' } });
const spans = { data: 0, forward: 1, backward: 2, loss: 3, optimizer: 4 };

/** The events that ranks send for a step; all steps have different times and losses. */
function stepOf(step: number, version = 0) {
  const result = {
    step,
    loss: 1 / step + version,
    gradNorm: step,
    lr: 1,
    skipped: false,
    tokens: 8,
    seconds: step,
    spans,
  };
  const shape = {
    world: WORLD,
    strategy: 'FULL_SHARD',
    step,
    wireMs: 1 + (step % 7) / 10,
    curve: step > 90,
  } as const;
  return simulateRanks(shape).map((record) => ({ result, record: { ...record, loss: result.loss } }));
}

/** A history with a file in its own folder, and the list of its warnings. */
function historyFor(context: TestContext, { isThere = true } = {}) {
  const base = mkdtempSync(join(tmpdir(), 'history-'));
  context.after(() => rmSync(base, { recursive: true, force: true }));
  const folder = join(base, 'job');
  if (isThere) mkdirSync(folder);
  const warnings: string[] = [];
  const file = new SpillFile(join(folder, 'steps'));
  const history = new RunHistory({ config, world: WORLD }, file, (message) => warnings.push(message));
  return { history, folder, warnings };
}

test("a step's loads of experts are the sums over ranks, also of layers that only other stages have", (context) => {
  const { history } = historyFor(context);
  const first = { tokens: [3, 1], dropped: [0, 1] };
  const second = { tokens: [5, 0], dropped: [0, 0] };
  const { experts, rankRows } = history.keep(
    stepOf(1).map(({ result, record }, rank) => {
      const own = { first: [{ rank, rows: 4 + rank }] };
      const other = { second: [{ rank, rows: 5 }] };
      return rank === 0
        ? { record, result: { ...result, experts: { first }, rankRows: own } }
        : { record, result: { ...result, experts: { first, second }, rankRows: { ...own, ...other } } };
    }),
  );
  assert.deepEqual(rankRows, {
    first: [
      { rank: 0, rows: 4 },
      { rank: 1, rows: 5 },
    ],
    second: [{ rank: 1, rows: 5 }],
  });
  assert.deepEqual(experts, {
    first: { tokens: [6, 2], dropped: [0, 2] },
    second,
  });
});

/** The records that a history of these steps must have: curves only of the newest two steps. */
function recordsOf(steps: readonly (readonly { readonly record: StepRecord }[])[]): StepRecord[] {
  return steps.flatMap((ranks, i) =>
    ranks.map(({ record }) =>
      i >= steps.length - 2 ? record : { ...record, memory: { ...record.memory, curve: null } },
    ),
  );
}

const FIGURES: Readonly<Record<string, (view: RunView, step?: number) => Figure>> = {
  memory: (view, step) => memoryFigure(view, step === undefined ? {} : { step }),
  'memory over time': (view, step) =>
    memoryFigure(view, { over: 'time', ...(step === undefined ? {} : { step }) }),
  'memory of both spaces': (view, step) =>
    memoryFigure(view, { space: 'both', ...(step === undefined ? {} : { step }) }),
  timeline: (view, step) => commTimeline(view, step === undefined ? {} : { step }),
  communication: (view) => commCauses(view),
};

test("a run's figures are the same whether its old steps are in a file or in memory", (context) => {
  const { history, warnings } = historyFor(context);
  const steps = Array.from({ length: 100 }, (_, i) => stepOf(i + 1));
  for (const step of steps) history.keep(step);
  const records = recordsOf(steps);
  assert.deepEqual([...history.steps], records);
  const whole = viewOf({ config, world: WORLD, records });
  for (const step of [undefined, 1, 16, 17, 50, 84, 100]) {
    const view = viewOf(history.stepsOf(step ?? history.lastStep));
    assert.ok(view.records.length <= 40, `${view.records.length} records for one figure`);
    for (const [name, draw] of Object.entries(FIGURES)) {
      assert.deepEqual(draw(view, step).toPlotly(), draw(whole, step).toPlotly(), `${name} of step ${step}`);
    }
    assert.deepEqual(processTable(view.records, step).rows, processTable(records, step).rows);
  }
  const view = viewOf(history.stepsOf(100));
  for (const what of ['memory', 'memoryTimeline', 'time', 'timeline', 'comm', 'loss'] as const) {
    assert.deepEqual(
      compareRuns({ view }, what).toPlotly(),
      compareRuns({ view: whole }, what).toPlotly(),
      what,
    );
  }
  assert.deepEqual(warnings, []);
});

test('losses and results are complete, from any step', (context) => {
  const { history } = historyFor(context);
  const results = Array.from({ length: 75 }, (_, i) => {
    const step = stepOf(i + 1);
    return history.keep(step);
  });
  assert.deepEqual(
    history.losses,
    results.map(({ loss }) => loss),
  );
  for (const first of [0, 1, 15, 16, 40, 74, 75]) {
    assert.deepEqual(history.steps.results(first), results.slice(first));
  }
});

test('after a load of a later step, margins belong to the same steps as losses', (context) => {
  const { history } = historyFor(context);
  const keep = (step: number) =>
    history.keep(
      stepOf(step).map(({ result, record }) => {
        const rewards = { margin: step, accuracy: 1, chosen: step, rejected: 0 };
        return { result: { ...result, rewards }, record };
      }),
    );
  keep(1);
  history.resume(3);
  keep(4);
  assert.deepEqual(history.lossesByStep().losses, [1, Number.NaN, Number.NaN, 1 / 4]);
  assert.deepEqual(history.margins, [1, Number.NaN, Number.NaN, 4]);
});

test('after any steps and loads, steps, losses and communication equal those of a plain list', (context) => {
  const act = fc.oneof(
    fc.record({ steps: fc.integer({ min: 1, max: 40 }) }),
    fc.record({ load: fc.double({ min: 0, max: 1.2, noNaN: true }) }),
  );
  fc.assert(
    fc.property(fc.array(act, { maxLength: 6 }), (acts) => {
      const { history } = historyFor(context);
      let steps: ReturnType<typeof stepOf>[] = [];
      for (const [version, one] of acts.entries()) {
        if ('steps' in one) {
          for (let i = 0; i < one.steps; i++) {
            const step = stepOf(history.lastStep + 1, version);
            history.keep(step);
            steps.push(step);
          }
        } else {
          const to = Math.round(one.load * history.lastStep);
          history.resume(to);
          steps = steps.filter(([rank]) => (rank?.result.step ?? 0) <= to);
        }
      }
      assert.equal(history.steps.numSteps, steps.length);
      assert.deepEqual(
        history.losses,
        steps.map(([rank]) => rank?.result.loss),
      );
      assert.deepEqual(
        history.steps.results(),
        steps.map(([rank]) => rank?.result),
      );
      assert.deepEqual(
        [...history.steps].map(({ step, rank, loss }) => [step, rank, loss]),
        steps.flat().map(({ record }) => [record.step, record.rank, record.loss]),
      );
      for (const [rank] of steps) {
        const { step = 0, loss = 0 } = rank?.result ?? {};
        assert.deepEqual(
          history.steps.ofStep(step).map((one) => one.loss),
          [loss, loss],
        );
      }
      if (steps.length === 0) return;
      const view = viewOf(history.stepsOf(history.lastStep));
      const whole = viewOf({ config, world: WORLD, records: recordsOf(steps) });
      assert.deepEqual(commCauses(view).table.rows, commCauses(whole).table.rows);
    }),
    { numRuns: 30, seed: 1 },
  );
});

test('a file that cannot be written is reported once, and training continues', (context) => {
  const { history, folder, warnings } = historyFor(context, { isThere: false });
  for (let step = 1; step <= 64; step++) history.keep(stepOf(step));
  assert.equal(warnings.length, 1);
  assert.match(
    warnings[0] ?? '',
    /^the records of steps 1 to 16 are lost: cannot write .*steps: ENOENT.*Free some space/,
  );
  assert.equal(history.losses.length, 64);
  assert.equal(history.steps.results().length, 64);
  assert.throws(() => history.stepsOf(3), {
    code: 'IO',
    message: /steps 1 to 16 are lost: .*choose another step/,
  });
  assert.throws(() => [...history.steps], { code: 'IO' });
  assert.ok(memoryFigure(viewOf(history.stepsOf(64))).title.length > 0);
  mkdirSync(folder);
  for (let step = 65; step <= 96; step++) history.keep(stepOf(step));
  assert.equal(history.steps.ofStep(60).length, WORLD);
  assert.equal(warnings.length, 1);
});

test('steps in a file can be read after the file was deleted', (context) => {
  const { history, folder } = historyFor(context);
  for (let step = 1; step <= 40; step++) history.keep(stepOf(step));
  rmSync(folder, { recursive: true });
  assert.deepEqual(history.steps.ofStep(2), recordsOf([stepOf(2), stepOf(3), stepOf(4)]).slice(0, WORLD));
});

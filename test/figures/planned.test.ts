import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimRatio, documentedText, foundText } from '../../src/claims/figures/claim-words';
import { logTicks } from '../../src/figures/grammar/axes';
import { DARK, LIGHT } from '../../src/figures/grammar/ink';
import { accuracyFigure } from '../../src/figures/plans/accuracy-figure';
import { scalingCurve } from '../../src/figures/plans/scaling-curve';
import { timeBreakdown } from '../../src/figures/plans/time-breakdown';
import { whatIfFigure } from '../../src/figures/plans/what-if';
import { accuracyOf } from '../../src/planner/accuracy';
import { digestOf } from './digest';
import { assertGolden } from './golden';
import { about, measuredRuns, plannedFigures, result } from './planned';
import { loadPlotly, problemsOf } from './plotly-validate';
import { textFaults } from './svg-texts';

const figures = plannedFigures();
const plotly = loadPlotly();

for (const [name, figure] of Object.entries(figures)) {
  test(`${name}: plotly's schema accepts the figure`, () => {
    assert.deepEqual(problemsOf(plotly, figure.toPlotly()), []);
  });

  test(`${name}: no text leaves the static picture or overlaps another, in light and dark`, () => {
    for (const theme of [LIGHT, DARK]) assert.deepEqual(textFaults(figure.toSvg(theme)), []);
  });

  test(`${name}: the title is a finding of at most 75 characters, and no number in the picture is broken`, () => {
    assert.ok(figure.title.length > 0 && figure.title.length <= 75, figure.title);
    // 'undefined' is a verdict's word too; there it is a text of its own.
    const picture = figure.toSvg(LIGHT).replaceAll(/\bundefined(?=\*?<)/g, '');
    assert.ok(!/NaN|Infinity|undefined/.test(picture), 'the picture holds a broken number');
    assert.ok(!/NaN|undefined/.test(figure.title + figure.subtitle), figure.title);
  });
}

for (const name of [
  'claims-some',
  'claims-many',
  'plan-memory',
  'scaling-efficiency',
  'what-if',
  'time-breakdown',
  'ranked-layouts',
  'accuracy-few',
  'reproduced-rows',
  'reproduced-tables',
  'scaling-throughput',
]) {
  test(`${name}: the figure's words and data equal the golden file`, () => {
    assertGolden(name, digestOf(figures[name] ?? assert.fail(`no figure ${name}`)));
  });
}

test('a claim is compared if both numbers have the same sign and unit, a range by its nearer end', () => {
  assert.equal(claimRatio(result('a', -75, '%', 'off', { predicted: -87.5 })), 75 / 87.5);
  assert.equal(claimRatio(result('a', [10, 20], 'min', 'off', { predicted: 15 })), 1);
  assert.equal(claimRatio(result('a', [10, 20], 'min', 'off', { predicted: 40 })), 0.5);
  assert.equal(claimRatio(result('a', -18, '%', 'off', { predicted: 3 })), null);
  assert.equal(claimRatio(result('a', null, null, 'off', { predicted: 3 })), null);
  assert.equal(claimRatio(result('a', 4, 'GB', 'holds')), null);
  const other = result('a', 100, 'parameters', 'holds', { predicted: 35 });
  assert.equal(claimRatio({ ...other, finding: { ...other.finding, unit: 'units' } }), null);
  assert.equal(claimRatio({ ...other, finding: { ...other.finding, unit: 'parameters a unit' } }), 100 / 35);
});

test('a measurement is preferred to a prediction', () => {
  const both = result('a', 10, 'GB', 'off', { predicted: about(5), measured: 20 });
  assert.equal(claimRatio(both), 0.5);
  assert.equal(foundText(both.finding), '20 GB');
});

test('documented numbers are written as in the documents', () => {
  const texts = [
    result('a', -75, '%', 'off'),
    result('a', [10, 20], 'min', 'off'),
    result('a', 27e9, 'parameters', 'off'),
    result('a', 3.2, 'x', 'off'),
    result('a', null, null, 'off'),
  ].map(({ claim }) => documentedText(claim));
  assert.deepEqual(texts, ['−75%', '10–20 min', '27B parameters', '3.2 ×', '']);
});

test('the title of the claims counts every verdict, and a guess can refer to the counts', () => {
  const { title, quantities } = figures['claims-some'] ?? assert.fail();
  assert.equal(title, 'Of 13 claims, 2 hold, 2 in part, 5 do not and 4 are undecided');
  assert.equal(quantities.holds?.value, 2);
});

test('the interval decides whether a documented number is inside the prediction, and bounds have one side', () => {
  const at = (value: number, relation?: '>' | 'up to') =>
    scalingCurve({
      series: [{ name: 'a', points: [{ count: 128, value: { value: 79, low: 70, high: 83 } }] }],
      quantity: 'efficiency',
      countedIn: 'nodes',
      documented: [{ count: 128, value, id: 'x', relation }],
      subtitle: '',
    }).title;
  assert.equal(at(76), 'The documented 76% at 128 nodes is inside the prediction: 70 to 83%');
  assert.match(at(60), /is outside/);
  assert.match(at(60, '>'), /is inside/);
  assert.match(at(90, '>'), /is outside/);
  assert.match(at(90, 'up to'), /is inside/);
});

test('of several lines the title names the one that agrees with the document, else the two nearest', () => {
  const line = (name: string, value: number) => ({
    name,
    points: [{ count: 128, value: { value, low: value - 2, high: value + 2 } }],
  });
  const at = (value: number) =>
    scalingCurve({
      series: [line('large', 96), line('small', 56)],
      quantity: 'efficiency',
      countedIn: 'nodes',
      documented: [{ count: 128, value, id: 'x' }],
      subtitle: '',
    }).title;
  assert.equal(at(57), 'The documented 57% at 128 nodes fits "small"');
  assert.equal(at(76), 'The documented 76% at 128 nodes is between the predicted 56% and 96%');
  assert.equal(at(30), 'The documented 30% at 128 nodes is outside the predicted 56% and 96%');
});

test('accuracy is mean, median, worst error, bias and pairs ranked right', () => {
  const pairs = [
    { predicted: 1.1, measured: 1 },
    { predicted: 1.8, measured: 2 },
    { predicted: 1.8, measured: 4 },
  ];
  const { mean, median, worst, bias, pairsRanked } = accuracyOf(pairs);
  const rounded = [mean, median, worst, bias, pairsRanked].map((value) => Number(value.toFixed(4)));
  assert.deepEqual(rounded, [0.25, 0.1, 0.55, -0.1833, 0.8333]);
  assert.equal(accuracyOf([]).mean, 0);
});

test('accuracy is computed only from runs that no constant was fitted on', () => {
  const runs = measuredRuns(10);
  const spoiled = runs.map((run) => (run.fitted === true ? { ...run, predicted: run.measured * 9 } : run));
  const of = (some: typeof runs) => accuracyFigure(some, { subtitle: '' }).quantities.meanError?.value;
  assert.equal(of(spoiled), of(runs));
  const all = runs.map((run) => ({ ...run, fitted: true }));
  assert.throws(() => accuracyFigure(all, { subtitle: '' }), { code: 'CONFIG' });
});

test('the frontier connects the layouts that no other beats in both time and memory', () => {
  const { data } = figures['ranked-layouts'] ?? assert.fail();
  const line = data.find((trace) => trace.type === 'scatter' && trace.mode === 'lines');
  const [xs, ys] = [line?.x ?? [], line?.y ?? []];
  assert.ok(xs.length > 1);
  assert.deepEqual(
    [...xs],
    [...xs].sort((a, b) => a - b),
  );
  assert.deepEqual(
    [...ys],
    [...ys].sort((a, b) => b - a),
  );
});

test('figures without data are refused', () => {
  const refused = { code: 'CONFIG' };
  assert.throws(() => timeBreakdown([], ''), refused);
  assert.throws(() => whatIfFigure([], { capacityBytes: 1, subtitle: '' }), refused);
  const empty = { series: [], quantity: 'efficiency', countedIn: 'nodes', subtitle: '' } as const;
  assert.throws(() => scalingCurve(empty), refused);
});

test('ticks of a logarithmic axis are round values inside it, few in wide ranges and more in narrow ones', () => {
  const ticks = (low: number, high: number) =>
    logTicks(low, high, String).tickvals.map((at) => Number((10 ** at).toPrecision(4)));
  assert.deepEqual(ticks(0.5, 4), [0.5, 0.7, 1, 1.5, 2, 3]);
  assert.deepEqual(ticks(1, 2), [1, 1.25, 1.5, 2]);
  assert.deepEqual(ticks(1, 1e6), [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { commCauses } from '../../src/figures/comm-causes';
import { commTimeline } from '../../src/figures/comm-timeline';
import { LIGHT } from '../../src/figures/grammar/ink';
import { memoryFigure, memoryRanks } from '../../src/figures/memory-figure';
import { memoryTimeline } from '../../src/figures/memory-timeline';
import { compareRuns } from '../../src/figures/run-figures';
import type { RunView } from '../../src/figures/run-view';
import { HAS_ALL_CASES } from '../support/cases';
import { simulatedRun } from './gallery-runs';
import { loadPlotly, problemsOf } from './plotly-validate';
import { textFaults } from './svg-texts';

const plotly = loadPlotly();

const run: fc.Arbitrary<RunView> = fc
  .record({
    strategy: fc.constantFrom('NO_SHARD' as const, 'SHARD_GRAD_OP' as const, 'FULL_SHARD' as const),
    world: fc.integer({ min: 1, max: 20 }),
    layers: fc.integer({ min: 0, max: 9 }),
    blockParams: fc.integer({ min: 1, max: 500_000_000 }),
    rootParams: fc.integer({ min: 1, max: 500_000_000 }),
    wireMs: fc.double({ min: 0.001, max: 500, noNaN: true }),
    blockName: fc.constantFrom('blocks', 'x', '<b>&"', 'decoder.layers.with_a_name_without_an_end.and_more'),
    curve: fc.boolean(),
    prefetch: fc.boolean(),
    recomputeEvery: fc.integer({ min: 0, max: 3 }),
    offload: fc.boolean(),
  })
  .map(simulatedRun);

const DRAWN = {
  'memory over time': memoryTimeline,
  'memory by rank': memoryRanks,
  'communication timeline': commTimeline,
  'communication by cause': commCauses,
  'memory of both spaces': (one: RunView) => memoryFigure(one, { space: 'both' }),
  'timelines compared': (one: RunView) =>
    compareRuns({ 'a run': one, 'another with a long long long long name': one }, 'timeline'),
  'communication compared': (one: RunView) =>
    compareRuns({ 'a run': one, 'another with a long long long long name': one }, 'comm'),
  'memory over time compared': (one: RunView) =>
    compareRuns(
      { 'a run': one, 'another with a long long long long name': one, third: one },
      'memoryTimeline',
    ),
  'memory compared': (one: RunView) =>
    compareRuns({ 'a run': one, 'another with a long long long long name': one }, 'memory'),
} as const;

for (const [name, draw] of Object.entries(DRAWN)) {
  test(`${name}: for any run of the schema no text overlaps or is cut off, and the title fits`, () => {
    fc.assert(
      fc.property(run, (one) => {
        const figure = draw(one);
        assert.deepEqual(problemsOf(plotly, figure.toPlotly()), []);
        const svg = figure.toSvg(LIGHT);
        assert.deepEqual(textFaults(svg), []);
        assert.ok(!/NaN|Infinity|undefined/.test(svg));
        assert.ok(figure.title.length <= 75);
      }),
      { seed: 11, numRuns: HAS_ALL_CASES ? 15 : 6 },
    );
  });
}

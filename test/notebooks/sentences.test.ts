import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DISPLAY } from '../../src/core/display';
import { compareComm } from '../../src/figures/comm-causes';
import { commTimeline, compareTimeline } from '../../src/figures/comm-timeline';
import type { Figure } from '../../src/figures/figure';
import { lossCurve } from '../../src/figures/loss-curve';
import { compareMemoryTimeline } from '../../src/figures/memory-timeline';
import { simulatedRun } from '../figures/gallery-runs';
import type { Notebook } from './executed';
import { unshownFacts } from './facts';
import { falseSentences, figuresOf } from './sentences';

const [a, b] = [
  simulatedRun({ strategy: 'FULL_SHARD', world: 2 }),
  simulatedRun({ strategy: 'NO_SHARD', world: 2 }),
];
const FIGURES: Readonly<Record<string, Figure>> = {
  timelines: compareTimeline({ a, b }),
  timeline: commTimeline(a),
  bytes: compareComm({ a, b }),
  memory: compareMemoryTimeline({ a, b }),
  loss: lossCurve([{ name: '', losses: [3, 2.5, 2] }]),
};

/** A notebook that shows a figure, whose stored text may be changed. */
function notebookOf(figure: Figure, change: (text: string) => string = (text) => text): Notebook {
  const data: Readonly<Record<string, unknown>> = figure[DISPLAY]();
  const text = change(String(data['text/plain']));
  const output = { output_type: 'display_data', data: { ...data, 'text/plain': text } };
  return { cells: [{ cell_type: 'code', source: '', outputs: [output] }] };
}

for (const [name, figure] of Object.entries(FIGURES)) {
  test(`${name}: the figure's sentences agree with its numbers`, () => {
    const notebook = notebookOf(figure);
    assert.equal(figuresOf(notebook)[0]?.heading, figure.title);
    assert.deepEqual(falseSentences(notebook), []);
  });
}

test('a title that contradicts its table is found', () => {
  const planted: readonly [Figure | undefined, (text: string) => string][] = [
    [FIGURES.loss, (text) => text.replace('falls', 'rises')],
    [FIGURES.loss, (text) => text.replace('to 2.000', 'to 1.000')],
    [FIGURES.bytes, (text) => text.replace(/receives [\d.]+/, 'receives 0.1')],
    [FIGURES.timeline, (text) => text.replace(/Ranks wait [\d.]+/, 'Ranks wait 0.001')],
    [FIGURES.timelines, (text) => text.replace(/^.*\n/, '"a" waits 1.0 ms, and "b" waits 2.0 ms\n')],
    [FIGURES.timelines, (text) => text.replace(/^.*\n/, '"b" waits longer, though less for the wire\n')],
    [FIGURES.memory, (text) => text.replace(/; .*\n/, '; a step takes 2.00× as long\n')],
  ];
  for (const [figure, change] of planted) {
    const notebook = notebookOf(figure ?? assert.fail(), change);
    assert.ok(falseSentences(notebook).length > 0, figuresOf(notebook)[0]?.title);
  }
});

test('a stated fact is found if no output shows it, or if its sentence is gone from the prose', () => {
  const cell = { cell_type: 'markdown', source: 'The losses are equal in every bit:' } as const;
  const problems = unshownFacts('03-offload-and-checkpoint.ipynb', { cells: [cell] });
  assert.equal(problems.length, 2);
  assert.match(problems[0] ?? '', /^the outputs do not show "are equal in every bit"/);
  assert.match(problems[1] ?? '', /^the prose no longer says/);
});

import { randomUUID } from 'node:crypto';
import type { DisplaySink } from '../cell/display';
import type { MimeBundle } from '../cell/mime';
import { lossCurve } from '../figures/loss-curve';
import type { StepResult } from '../train/step-result';
import { createRunSummary } from './run-summary';

/** Time between two drawings. */
const REDRAW_MS = 200;

/** Shows steps while they run. */
export interface Progress {
  show(done: readonly StepResult[], last: StepResult): void;
  /** Shows the last state for good. */
  finish(): void;
}

/** Draws into one display that is updated at most five times a second; nothing where there is no display. */
export function createProgress(display: DisplaySink | undefined, numSteps: number): Progress {
  const displayId = `shardlab-run-${randomUUID()}`;
  let waiting: MimeBundle | undefined;
  let drawnAt = -Infinity;
  let isDisplayed = false;
  const draw = (): void => {
    if (waiting === undefined) return;
    if (isDisplayed) display?.update(displayId, waiting);
    else display?.display(waiting, { displayId });
    isDisplayed = true;
    drawnAt = performance.now();
    waiting = undefined;
  };
  return {
    show(done, last) {
      if (display === undefined) return;
      waiting = progressBundle(done, last, numSteps);
      if (performance.now() - drawnAt >= REDRAW_MS) draw();
    },
    finish: draw,
  };
}

function progressBundle(done: readonly StepResult[], last: StepResult, numSteps: number): MimeBundle {
  // The first step warms up; the speed is that of the newest ones.
  const { tokensPerSecond } = createRunSummary(done.slice(-10));
  const text =
    `step ${done.length}/${numSteps}  loss ${last.loss.toFixed(4)}  ` +
    `${Math.round(tokensPerSecond).toLocaleString('en-US')} tokens/s  ${(last.seconds * 1e3).toFixed(1)} ms`;
  const bar = `<progress value="${done.length}" max="${numSteps}" style="width:12em;vertical-align:middle"></progress>`;
  const html = `<div>${bar} <code>${text}</code></div>`;
  if (done.length < 2) return { 'text/plain': text, 'text/html': html };
  const firstStep = done[0]?.step ?? 1;
  const series = [{ name: '', losses: done.map(({ loss }) => loss), firstStep }];
  const curve = lossCurve(series, { tokensPerSecond, steps: firstStep + numSteps - 1 });
  // No picture while it runs: drawing one takes as long as a step.
  return { 'application/vnd.plotly.v1+json': curve.toPlotly(), 'text/html': html, 'text/plain': text };
}

import { randomUUID } from 'node:crypto';
import type { DisplaySink } from '../cell/display';
import type { MimeBundle } from '../cell/mime';
import type { Figure } from '../figures/figure';
import { EITHER } from '../figures/ink';
import { lossCurve } from '../figures/loss-curve';
import { DISPLAY } from '../figures/table';
import type { StepResult } from '../train/step-result';
import { createRunSummary } from './run-summary';

/** Fewer points make no curve: a line of text says it all. */
const LEAST_POINTS = 5;
/** Time between two drawings. */
const REDRAW_MS = 200;

/** Shows steps while they run. */
export interface Progress {
  show(done: readonly StepResult[], last: StepResult): void;
  /** Shows the last state for good: the whole figure, as documents without plotly need it. */
  finish(): void;
}

/** Draws into one display that is updated at most five times a second; nothing where there is no display. */
export function createProgress(display: DisplaySink | undefined, numSteps: number): Progress {
  const displayId = `shardlab-run-${randomUUID()}`;
  let newest: State | undefined;
  let drawnAt = -Infinity;
  let isDisplayed = false;
  const draw = (bundle: MimeBundle): void => {
    if (isDisplayed) display?.update(displayId, bundle);
    else display?.display(bundle, { displayId });
    isDisplayed = true;
    drawnAt = performance.now();
  };
  return {
    show(done, last) {
      if (display === undefined) return;
      newest = { done, last, numSteps };
      if (performance.now() - drawnAt >= REDRAW_MS) draw(runningBundle(newest));
    },
    finish() {
      if (newest !== undefined) draw(finalBundle(newest));
    },
  };
}

/** How far the steps have come. */
interface State {
  readonly done: readonly StepResult[];
  readonly last: StepResult;
  readonly numSteps: number;
}

function runningBundle(state: State): MimeBundle {
  const { done, numSteps } = state;
  const text = progressText(state);
  const bar = `<progress value="${done.length}" max="${numSteps}" style="width:12em;vertical-align:middle"></progress>`;
  // No plotly while it runs: JupyterLab's extension draws a display once and ignores its updates.
  const picture = done.length < LEAST_POINTS ? '' : curveOf(state).toSvg(EITHER);
  return { 'text/html': `<div>${bar} <code>${text}</code></div>${picture}`, 'text/plain': text };
}

function finalBundle(state: State): MimeBundle {
  const text = progressText(state);
  if (state.done.length < LEAST_POINTS) return { 'text/plain': text };
  const bundle = curveOf(state)[DISPLAY]();
  return { ...bundle, 'text/plain': `${text}\n${bundle['text/plain']}` };
}

function progressText({ done, last, numSteps }: State): string {
  return (
    `step ${done.length}/${numSteps}  loss ${last.loss.toFixed(4)}  ` +
    `${speedOf(done).toLocaleString('en-US')} tokens/s  ${(last.seconds * 1e3).toFixed(1)} ms`
  );
}

function curveOf({ done, numSteps }: State): Figure {
  const firstStep = done[0]?.step ?? 1;
  const series = [{ name: '', losses: done.map(({ loss }) => loss), firstStep }];
  return lossCurve(series, { tokensPerSecond: speedOf(done), steps: firstStep + numSteps - 1 });
}

/** The first step warms up; the speed is that of the newest ones. */
function speedOf(done: readonly StepResult[]): number {
  return Math.round(createRunSummary(done.slice(-10)).tokensPerSecond);
}

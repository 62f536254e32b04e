import { randomUUID } from 'node:crypto';
import type { DisplaySink } from '../../cell/display';
import type { MimeBundle } from '../../cell/mime';
import type { Figure } from '../../figures/figure';
import { LIGHT } from '../../figures/grammar/ink';
import { lossCurve } from '../../figures/loss-curve';
import { DISPLAY } from '../../figures/table';
import type { StepResult } from '../../train/step-result';
import { createRunSummary } from './summary';

/** Fewer points make no curve, so a line of text is enough. */
const LEAST_POINTS = 5;
/** Time between two redraws: at least this time, and at least this multiple of the last redraw's time. */
const REDRAW_MS = 200;
const REDRAW_SHARE = 20;
/** Number of newest steps that give the speed. */
const NUM_SPEED = 10;

/** Shows steps while they run. */
export interface Progress {
  show(last: StepResult): void;
  /** Shows the final state: the whole figure, in the form that documents without plotly need. */
  finish(): void;
}

/** Draws into one display that is updated at most five times a second; does nothing without a display. */
export function createProgress(display: DisplaySink | undefined, numSteps: number): Progress {
  const displayId = `shardlab-run-${randomUUID()}`;
  const state: State = { numSteps, losses: [], newest: [] };
  let drawnAt = -Infinity;
  let drawingMs = 0;
  let isDisplayed = false;
  const draw = (bundleOf: (state: State) => MimeBundle): void => {
    const start = performance.now();
    const bundle = bundleOf(state);
    if (isDisplayed) display?.update(displayId, bundle);
    else display?.display(bundle, { displayId });
    isDisplayed = true;
    drawnAt = performance.now();
    drawingMs = drawnAt - start;
  };
  return {
    show(last) {
      if (display === undefined) return;
      state.losses.push(last.loss);
      state.newest.push(last);
      if (state.newest.length > NUM_SPEED) state.newest.shift();
      if (performance.now() - drawnAt >= Math.max(REDRAW_MS, REDRAW_SHARE * drawingMs)) draw(runningBundle);
    },
    finish() {
      if (state.newest.length > 0) draw(finalBundle);
    },
  };
}

/** The progress of the steps. */
interface State {
  readonly numSteps: number;
  readonly losses: number[];
  /** Results of the newest steps. */
  readonly newest: StepResult[];
}

function runningBundle(state: State): MimeBundle {
  const { losses, numSteps } = state;
  const text = progressText(state);
  const bar = `<progress value="${losses.length}" max="${numSteps}" style="width:12em;vertical-align:middle"></progress>`;
  // No plotly while steps run, because JupyterLab's extension draws a display once and ignores its updates.
  const picture = losses.length < LEAST_POINTS ? '' : curveOf(state).toSvg(LIGHT);
  return { 'text/html': `<div>${bar} <code>${text}</code></div>${picture}`, 'text/plain': text };
}

function finalBundle(state: State): MimeBundle {
  const text = progressText(state);
  if (state.losses.length < LEAST_POINTS) return { 'text/plain': text };
  const bundle = curveOf(state)[DISPLAY]();
  return { ...bundle, 'text/plain': `${text}\n${bundle['text/plain']}` };
}

function progressText(state: State): string {
  const { losses, numSteps, newest } = state;
  const [loss, seconds] = [losses.at(-1) ?? Number.NaN, newest.at(-1)?.seconds ?? Number.NaN];
  return (
    `step ${losses.length}/${numSteps}  loss ${loss.toFixed(4)}  ` +
    `${speedOf(state).toLocaleString('en-US')} tokens/s  ${(seconds * 1e3).toFixed(1)} ms`
  );
}

function curveOf(state: State): Figure {
  const { losses, numSteps, newest } = state;
  const firstStep = (newest.at(-1)?.step ?? losses.length) - losses.length + 1;
  const series = [{ name: '', losses, firstStep }];
  return lossCurve(series, { tokensPerSecond: speedOf(state), steps: firstStep + numSteps - 1 });
}

/** The first step is a warm-up; the speed is that of the newest steps. */
function speedOf({ newest }: State): number {
  return Math.round(createRunSummary(newest).tokensPerSecond);
}

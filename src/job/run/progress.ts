import { currentDisplay, replacingDisplay } from '../../cell/display';
import type { MimeBundle } from '../../cell/mime';
import type { Seconds } from '../../core/units';
import type { Figure } from '../../figures/figure';
import { escapeHtml, LIGHT } from '../../figures/grammar/ink';
import { lossCurve } from '../../figures/loss-curve';
import { type Shown, shownAsText, withShown } from '../../figures/shown';
import { DISPLAY } from '../../figures/table';
import type { StepResult } from '../../train/step-result';

/** Time between two drawings of a line. */
const LINE_MS = 100;
/** Fewer points make no curve, so a line of text is enough. */
const LEAST_POINTS = 5;
/** Time between two redraws of a curve: at least this time, and at least this multiple of the last redraw's time. */
const REDRAW_MS = 200;
const REDRAW_SHARE = 20;
/** The speed is that of this number of newest steps. */
const NUM_SPEED = 10;

/** Creates a line that shows the progress of work; without a display, it shows nothing. */
export function createProgressLine() {
  const draw = replacingDisplay();
  let drawnAt = -Infinity;
  return {
    show(text: string, done: number, total: number): void {
      if (performance.now() - drawnAt < LINE_MS) return;
      draw(barBundle(text, done, total));
      drawnAt = performance.now();
    },
    /** Replaces the line by a final text. */
    finish(text: string): void {
      draw({ 'text/html': `<div><code>${escapeHtml(text)}</code></div>`, 'text/plain': text });
    },
  };
}

/** Shows steps while they run, in one display that is updated at most five times per second, if there is a display. */
export function createProgress(numSteps: number, hasOwnLoss = false) {
  const sink = currentDisplay();
  const display = replacingDisplay(sink, 'shardlab-run');
  const state: State = { numSteps, hasOwnLoss, losses: [], newest: [] };
  let drawnAt = -Infinity;
  let drawingMs = 0;
  return {
    show(last: StepResult): void {
      if (sink === undefined) return;
      state.losses.push(last.loss);
      state.newest.push(last);
      if (state.newest.length > NUM_SPEED) state.newest.shift();
      const start = performance.now();
      if (start - drawnAt < Math.max(REDRAW_MS, REDRAW_SHARE * drawingMs)) return;
      display(runningBundle(state));
      drawnAt = performance.now();
      drawingMs = drawnAt - start;
    },
    /** Shows the final state: the whole figure, in the form that documents without plotly need. */
    finish(): void {
      if (state.newest.length > 0) display(finalBundle(state));
    },
  };
}

/** Returns a progress bar beside a text, above a picture. */
function barBundle(text: string, done: number, total: number, picture = ''): MimeBundle {
  const bar = `<progress value="${done}" max="${total}" style="width:12em;vertical-align:middle"></progress>`;
  return { 'text/html': `<div>${bar} <code>${escapeHtml(text)}</code></div>${picture}`, 'text/plain': text };
}

/** The progress of the steps. */
interface State {
  readonly hasOwnLoss: boolean;
  readonly numSteps: number;
  readonly losses: number[];
  /** Results of the newest steps. */
  readonly newest: StepResult[];
}

function runningBundle(state: State): MimeBundle {
  const { losses, numSteps } = state;
  const text = progressText(state);
  // No plotly while steps run, because JupyterLab's extension draws a display once and ignores its updates.
  const picture = losses.length < LEAST_POINTS ? '' : curveOf(state).toSvg(LIGHT);
  return barBundle(text, losses.length, numSteps, picture);
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
  const { losses, numSteps, newest, hasOwnLoss } = state;
  const firstStep = (newest.at(-1)?.step ?? losses.length) - losses.length + 1;
  const series = [{ name: '', losses, firstStep, hasOwnLoss }];
  return lossCurve(series, { tokensPerSecond: speedOf(state), steps: firstStep + numSteps - 1 });
}

/** Returns the tokens per second of the newest steps, without the first step, which is a warm-up. */
function speedOf({ newest }: State): number {
  return Math.round(createRunSummary(newest).tokensPerSecond);
}

/** The summary of some steps. Shown in a notebook as one line. */
export interface RunSummary extends Shown {
  readonly numSteps: number;
  /** Number of the last step, from 1. */
  readonly lastStep: number;
  readonly firstLoss: number;
  readonly lastLoss: number;
  /** Tokens per second of all ranks, over the time of the steps. */
  readonly tokensPerSecond: number;
  /** Median time of a step. */
  readonly stepSeconds: Seconds;
}

/** Summarizes at least one step. */
export function createRunSummary(results: readonly StepResult[]): RunSummary {
  const seconds = results.map((result) => result.seconds).sort((a, b) => a - b);
  const total = seconds.reduce((sum, one) => sum + one, 0);
  const tokens = results.reduce((sum, result) => sum + result.tokens, 0);
  const facts = {
    numSteps: results.length,
    lastStep: results.at(-1)?.step ?? 0,
    firstLoss: results[0]?.loss ?? Number.NaN,
    lastLoss: results.at(-1)?.loss ?? Number.NaN,
    tokensPerSecond: tokens / total,
    stepSeconds: seconds[Math.floor(seconds.length / 2)] ?? Number.NaN,
  };
  const { lastStep, firstLoss, lastLoss, stepSeconds } = facts;
  const before = firstLoss === lastLoss ? '' : `${firstLoss.toFixed(4)} → `;
  const speed = Math.round(facts.tokensPerSecond).toLocaleString('en-US');
  const time = `${speed} tokens/s, ${(stepSeconds * 1e3).toFixed(1)} ms per step`;
  return withShown(facts, shownAsText(`step ${lastStep}: loss ${before}${lastLoss.toFixed(4)}, ${time}`));
}

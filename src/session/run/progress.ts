import {
  currentDisplay,
  isWithinProgress,
  type MimeBundle,
  type ProgressPlace,
  progressBundle,
  timeLeft,
} from '../../cell';
import {
  type Bytes,
  DISPLAY,
  median,
  now,
  type Seconds,
  type Shown,
  shownAsText,
  sumOf,
  withShown,
} from '../../core';
import { counted, type Figure, ink, runFigures } from '../../figures';
import type { EvaluatedStep, RankStep } from '../../launch';
import type { StepResult } from '../../training';
import { stepsDisplay } from '../widgets/steps-display';
import type { ReplicaDrift } from './replicas';

/** If there are fewer points than this, the display is a line of text without a curve. */
const LEAST_POINTS = 5;
/** A curve is redrawn after at least REDRAW_MS milliseconds, and at least REDRAW_SHARE times the duration of its last redraw. */
const REDRAW_MS = 200;
const REDRAW_SHARE = 20;
/** If all steps together take less time than this, the remaining time is not shown. */
const TIME_LEFT_FROM: Seconds = 2;
/** While steps run, the display shows the speed of this number of newest steps. */
const NUM_SPEED = 10;

/** The facts that the progress of steps shows besides the steps' results. */
export interface ProgressOptions {
  /** The run's name. */
  readonly name: string;
  /** null if the number of steps is not known in advance. */
  readonly numSteps: number | null;
  readonly hasOwnLoss: boolean;
  /** Whether the curve stays when the steps have ended. */
  readonly keepsCurve: boolean;
  /** Whether the curve has the peaks of memory below the losses. */
  readonly hasMemory?: boolean;
  readonly evaluations: () => readonly EvaluatedStep[];
  /** Ends the steps after the running one; undefined if no button shall do so. */
  readonly stop?: (() => void) | undefined;
}

/** The display of steps. */
export type StepProgress = ReturnType<typeof createProgress>;

/** Shows steps while they run, in one display that is updated at most five times per second, if there is a display. */
export function createProgress(options: ProgressOptions) {
  const sink = isWithinProgress() ? undefined : currentDisplay();
  const display = stepsDisplay(sink, options.stop);
  const newest: StepResult[] = [];
  const state: State = { ...options, start: now(), losses: [], margins: [], peaks: [], newest };
  const stepSeconds: Seconds[] = [];
  let numTokens = 0;
  let numSkipped = 0;
  let drawnAt = -Infinity;
  let drawingMs = 0;
  let isFinished = false;
  const finish = (note: string | null = null): void => {
    isFinished = true;
    const notes = [note, skippedText(numSkipped, state.losses.length)].filter((text) => text !== null);
    const last = newest.at(-1);
    if (last === undefined) return;
    const timed = { stepSeconds, tokens: numTokens, countedRows: last.countedRows };
    display.end(finalBundle({ ...state, timed }, notes.length === 0 ? null : notes.join('; ')));
  };
  return {
    /** Shows one more step. After `finish`, as in a step that a walk completes when its cell has ended, it shows the final state. */
    show(last: StepResult, ranks: readonly RankStep[] = []): void {
      if (sink === undefined) return;
      state.losses.push(last.loss);
      if (options.hasMemory === true) state.peaks.push(peakOf(ranks));
      if (last.rewards !== undefined) state.margins.push(last.rewards.margin);
      numSkipped += Number(last.skipped);
      newest.push(last);
      if (newest.length > NUM_SPEED) newest.shift();
      stepSeconds.push(last.seconds);
      numTokens += last.tokens;
      if (isFinished) {
        finish();
        return;
      }
      const start = performance.now();
      if (start - drawnAt < Math.max(REDRAW_MS, REDRAW_SHARE * drawingMs)) return;
      display.show(runningBundle(state));
      drawnAt = performance.now();
      drawingMs = drawnAt - start;
    },
    /** Other work between two steps shows its progress here, in the same display. */
    place: {
      line: {
        isNotebook: true,
        show: (text, done, total) => display.show(progressBundle(text, done, total, pictureOf(state))),
        end: () => undefined,
      },
    } satisfies ProgressPlace,
    /**
     * Shows the final state: one line with the speed of all steps, and, if it is kept, the curve in the form that documents without
     * plotly need. `note` says why the steps ended.
     */
    finish,
  };
}

/** Decides which display shows the steps of a call. */
export class ProgressPlaces {
  /** The display that the short calls of the running cell share. */
  #shared: StepProgress | undefined;

  /**
   * Returns the display of a call. Calls of a few steps, as in a loop of `run.step(1)`, share one display per cell, if the
   * host says when the cell ends.
   */
  of(options: ProgressOptions): StepProgress {
    const { numSteps } = options;
    if (numSteps === null || numSteps >= LEAST_POINTS) return createProgress(options);
    if (this.#shared !== undefined) return this.#shared;
    const progress = createProgress({ ...options, numSteps: null, stop: undefined });
    const isShared = currentDisplay()?.atEnd?.(() => {
      this.#shared = undefined;
      progress.finish();
    });
    if (isShared !== true) return createProgress(options);
    this.#shared = { ...progress, finish: () => undefined };
    return this.#shared;
  }
}

/** The state of a progress display. */
interface State extends ProgressOptions {
  readonly start: Seconds;
  readonly losses: number[];
  /** The margins of pairs, step by step; empty unless the training is DPO. */
  readonly margins: number[];
  /** The largest peak of a rank's memory, step by step; empty unless the curve has it. */
  readonly peaks: Bytes[];
  /** Results of the newest steps. */
  readonly newest: readonly StepResult[];
  /** The steps whose speed is shown. Default: the newest. */
  readonly timed?: Timed;
}

/** The numbers from which the time of a step and the speed of some steps are computed, so that the two agree. */
interface Timed {
  readonly stepSeconds: readonly Seconds[];
  /** The tokens of all these steps together. */
  readonly tokens: number;
  readonly countedRows: boolean | undefined;
}

function runningBundle(state: State): MimeBundle {
  const { losses, numSteps } = state;
  const text = `${progressText(state)}${stepsLeft(state)}`;
  return progressBundle(text, losses.length, numSteps ?? losses.length, pictureOf(state));
}

function pictureOf(state: State): string {
  return state.losses.length < LEAST_POINTS ? '' : curveOf(state).toHtml();
}

function finalBundle(state: State, note: string | null): MimeBundle {
  const text = note === null ? progressText(state) : `${progressText(state)}  ${note}`;
  if (!state.keepsCurve || state.losses.length < LEAST_POINTS) return { 'text/plain': text };
  // Steps that ended early have an axis of their own length.
  const curve = curveOf({ ...state, numSteps: null });
  const bundle = (note === null ? curve : curve.withNote(ink.escapeHtml(note)))[DISPLAY]();
  return { ...bundle, 'text/plain': `${text}\n${bundle['text/plain']}` };
}

/** Returns the time that the remaining steps need if they are as fast as the mean of the steps so far; '' for short work. */
function stepsLeft({ numSteps, losses, start }: State): string {
  if (numSteps === null || losses.length === 0) return '';
  const perStep = (now() - start) / losses.length;
  const isShort = perStep * numSteps < TIME_LEFT_FROM || losses.length === numSteps;
  return isShort ? '' : `  ${timeLeft(perStep * (numSteps - losses.length))}`;
}

function progressText(state: State): string {
  const { name, losses, numSteps, newest, timed = timedOf(newest) } = state;
  const loss = losses.at(-1) ?? Number.NaN;
  const of = numSteps === null ? '' : `/${firstStepOf(state) + numSteps - 1}`;
  const { rewards } = newest.at(-1) ?? {};
  const ofPairs =
    rewards === undefined
      ? ''
      : `margin ${rewards.margin.toFixed(4)}  accuracy ${rewards.accuracy.toFixed(2)}  `;
  return (
    `step ${firstStepOf(state) + losses.length - 1}${of}  loss ${loss.toFixed(4)}  ${ofPairs}` +
    `${speedText(timed)}  ${(median(timed.stepSeconds) * 1e3).toFixed(1)} ms  ${name}`
  );
}

function curveOf(state: State): Figure {
  const { name, losses, margins, peaks, numSteps, newest, timed = timedOf(newest), hasOwnLoss } = state;
  const firstStep = firstStepOf(state);
  const evaluations = state.evaluations().filter(({ step }) => step >= firstStep);
  const series = [{ name, losses, margins, peaks, firstStep, hasOwnLoss, evaluations }];
  const steps = firstStep + (numSteps ?? losses.length) - 1;
  return runFigures.loss(series, { speed: speedText(timed), steps });
}

/** Returns the largest peak of a rank's memory in a step; NaN if the step was not recorded. */
function peakOf(ranks: readonly RankStep[]): Bytes {
  return Math.max(...ranks.map(({ record }) => record?.memory.peakBytes ?? Number.NaN));
}

/** Returns the number of the first shown step, counted over the whole run. */
function firstStepOf({ losses, newest }: State): number {
  return (newest.at(-1)?.step ?? losses.length) - losses.length + 1;
}

function timedOf(results: readonly StepResult[]): Timed {
  return {
    stepSeconds: results.map(({ seconds }) => seconds),
    tokens: sumOf(results, ({ tokens }) => tokens),
    countedRows: results.at(-1)?.countedRows,
  };
}

/** Formats the speed of some steps: '1,234 tokens/s', or 'rows/s' if rows have no tokens. */
function speedText(timed: Timed): string {
  const speed = Math.round(tokensPerSecond(timed)).toLocaleString('en-US');
  return `${speed} ${timed.countedRows ? 'rows' : 'tokens'}/s`;
}

/** Returns the mean tokens of a step, per second of the median step. */
function tokensPerSecond({ tokens, stepSeconds }: Timed): number {
  return tokens / stepSeconds.length / median(stepSeconds);
}

/** Returns a sentence about skipped updates; null if there are none. */
export function skippedText(numSkipped: number, numSteps: number): string | null {
  if (numSkipped === 0) return null;
  const lower = numSkipped === numSteps ? ', so nothing was trained yet; lower gradScaler.initScale' : '';
  return (
    `${numSkipped} of ${counted(numSteps, 'update')} skipped, because gradients overflowed; ` +
    `the GradScaler lowers its scale after each${lower}`
  );
}

/** The summary of some steps. Shown in a notebook as one line. */
export interface RunSummary extends Shown {
  readonly numSteps: number;
  /** Number of the last step, from 1. */
  readonly lastStep: number;
  readonly firstLoss: number;
  readonly lastLoss: number;
  /** The number of steps whose update a GradScaler skipped, because gradients overflowed. */
  readonly numSkipped: number;
  /** Tokens per second of all ranks: the mean tokens of a step per `stepSeconds`; rows per second if rows have no tokens. */
  readonly tokensPerSecond: number;
  /** Median time of a step. */
  readonly stepSeconds: Seconds;
  /** Says why fewer steps ran than the call asked for (a callback or an early stop); null if all steps ran. */
  readonly endedEarly: string | null;
  /** The first parameter whose replicas differed when they were last compared; null if all were equal. */
  readonly drift: ReplicaDrift | null;
  /** Says that faults are planted in the run; null if there are none. */
  readonly planted: string | null;
}

/** Summarizes at least one step. */
export function createRunSummary(
  results: readonly StepResult[],
  endedEarly: string | null = null,
  drift: ReplicaDrift | null = null,
  planted: string | null = null,
): RunSummary {
  const timed = timedOf(results);
  const facts = {
    numSteps: results.length,
    lastStep: results.at(-1)?.step ?? 0,
    firstLoss: results[0]?.loss ?? Number.NaN,
    lastLoss: results.at(-1)?.loss ?? Number.NaN,
    numSkipped: results.filter(({ skipped }) => skipped).length,
    tokensPerSecond: tokensPerSecond(timed),
    stepSeconds: median(timed.stepSeconds),
    endedEarly,
    drift,
    planted,
  };
  const { numSteps, numSkipped, lastStep, firstLoss, lastLoss, stepSeconds } = facts;
  const before = firstLoss === lastLoss ? '' : `${firstLoss.toFixed(4)} → `;
  const time = `${speedText(timed)}, ${(stepSeconds * 1e3).toFixed(1)} ms per step`;
  const differs = drift === null ? null : `replicas of ${drift.parameter} differ`;
  const notes = [endedEarly, skippedText(numSkipped, numSteps), differs, planted].filter(
    (note) => note !== null,
  );
  const end = notes.map((note) => `; ${note}`).join('');
  const text = `step ${lastStep}: loss ${before}${lastLoss.toFixed(4)}, ${time}${end}`;
  return withShown(facts, shownAsText(text));
}

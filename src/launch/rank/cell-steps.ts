import type { Seconds, SpanName, Warn } from '../../core';
import { Tensor } from '../../core/tf';
import type { Engine, Pass } from '../../engine';
import { type EndedStep, explainProcess, type Moment, type Recorder } from '../../ledger';
import type { OptimizerPlacement } from '../../sharding';
import type { CellStep } from '../control/messages';

/*
 * [Note: steps of cells] A cell or a function that runs in a rank is recorded in steps, as a run is. A step ends when an
 * optimizer's step() returns; several updates without a pass between them end one step. The code after an update may be
 * another update, so the step is cut only when the next pass begins. A cell with one update is one step from the cell's start
 * to its end, so the step contains the code after the update, such as an all-reduce of the loss. In a cell with several updates,
 * the code after an update belongs to the next step, and the code after the last update belongs to no step. A cell without an
 * update is recorded whole. If a later cell continues this step, figures draw only the later cell and name the earlier cell,
 * because the user decides how much time passes between cells. In a rank without an optimizer (tfjs alone updates
 * parameters), a report of the loss ends a step.
 */

/*
 * [Note: batches of cells] A trainer tags its batches; a cell makes tensors outside of all scopes of tags. Such tensors that
 * are on the device when a pass begins are the pass's inputs: they get the tag of a batch, as if they had been allocated with
 * this tag. So the ledger of a cell equals the ledger of a trainer.
 */
const BATCH = { cause: 'batch', module: '' } as const;

/** Records may take this share of the time; in cells with very short steps, only every second (fourth, …) step gets one. */
const MOST_TIME = 0.01;
/** The first steps of a cell all get records. */
const FIRST_STEPS = 16;

/** The numbers that a rank has about a step in addition to the step's events. */
interface StepNotes {
  readonly reported: number[];
  /** Losses of the passes. */
  readonly losses: number[];
  lr: number | null;
  gradNorm: number | null;
}

interface HeldStep {
  readonly ended: EndedStep;
  readonly notes: StepNotes;
}

/** The parts that a rank's cells and functions need to record steps. */
export interface CellStepsParts {
  readonly engine: Engine;
  readonly recorder: Recorder;
  readonly warn: Warn;
  /** Called before each pass. */
  readonly passBegins?: (() => void) | undefined;
}

/** Divides the work of cells and functions of one rank into steps and records them. [Note: steps of cells] */
export class CellSteps {
  readonly #parts: CellStepsParts;
  #send: ((step: CellStep) => void) | undefined;
  /** The moment at which the open step ends if another pass begins. */
  #mark: Moment | undefined;
  /**
   * The newest step that has ended. It is sent when the next step or the cell has ended, because only a cell's last step is sent
   * with the curve of its memory.
   */
  #held: HeldStep | undefined;
  #notes = emptyNotes();
  /** Losses of the passes of the last cell, if it made no update; a later cell may make this update. */
  #earlierLosses: readonly number[] = [];
  /** Number of steps of this cell that have ended. */
  #numEnded = 0;
  #hasOptimizer = false;
  #began: Seconds = 0;
  #spent: Seconds = 0;
  /** One of every `#every` steps gets a record. */
  #every = 1;
  #isWalked = false;
  #hasWarned = false;

  constructor(parts: CellStepsParts) {
    this.#parts = parts;
  }

  /** The functions that an optimizer of a cell calls before and after each step. */
  get ofOptimizer(): Pick<OptimizerPlacement, 'steps' | 'stepped'> {
    return {
      steps: () => this.#parts.recorder.reached?.({ name: 'optimizer', module: '' }),
      stepped: (optimizer, began) => this.updated(optimizer, began),
    };
  }

  /** Begins a cell or function; `send` gets its steps. */
  begin(send: (step: CellStep) => void, isWalked = false): void {
    const { engine, recorder } = this.#parts;
    this.#isWalked = isWalked;
    this.#send = send;
    this.#mark = undefined;
    this.#held = undefined;
    this.#notes = emptyNotes();
    this.#numEnded = 0;
    this.#began = engine.clock.now();
    this.#spent = 0;
    this.#every = 1;
    recorder.beginStep(1);
  }

  /** Runs a forward, which returns its pass. */
  pass(forward: () => Pass): Pass {
    this.begins();
    const pass = this.forward(forward);
    this.#notes.losses.push(scalarValueOf(pass.loss) ?? Number.NaN);
    return { ...pass, backward: (seed) => this.#timed('backward', () => pass.backward(seed)) };
  }

  /** Begins a pass. */
  begins(): void {
    this.#parts.passBegins?.();
    if (this.#mark !== undefined) this.#cut(this.#mark);
    this.#parts.engine.tagUnscoped(BATCH);
  }

  /** Runs a forward, or a part of it. */
  forward<T>(work: () => T): T {
    return this.#timed('forward', work);
  }

  /** Runs the backward of a loss whose forward was recorded by the eager tape, without a call of `pass`. */
  backward(loss: Tensor, work: () => void): void {
    this.#notes.losses.push(scalarValueOf(loss) ?? Number.NaN);
    this.#timed('backward', work);
  }

  /** Notes that an optimizer exists in this rank. */
  optimizes(): void {
    this.#hasOptimizer = true;
  }

  /** Must be called at the end of an optimizer's step; `began` is the time at which this call of step() began. */
  updated({ lr }: { readonly lr: number | null }, began: Seconds): void {
    if (this.#send === undefined) return;
    this.#spanSince('optimizer', began);
    this.#notes.lr = lr;
    this.#markNow();
  }

  /** Notes the norm of the step's gradients; `began` is the time at which the computation of the norm began. */
  clipped(norm: number, began: Seconds): void {
    this.#spanSince('optimizer', began);
    this.#notes.gradNorm = norm;
  }

  /** Sets the loss of the current step, or of the step that has just ended if no pass has begun since its end. */
  report(loss: number): void {
    if (this.#send === undefined) return;
    if (this.#hasOptimizer) {
      this.#notes.reported.push(loss);
      return;
    }
    if (this.#mark !== undefined) this.#cut(this.#mark);
    this.#notes.reported.push(loss);
    this.#markNow();
  }

  /** Ends the cell, which has returned `value`. */
  end(value: unknown): void {
    if (this.#send === undefined) return;
    const mark = this.#numEnded === 0 ? this.#moment() : this.#mark;
    const isStep = this.#mark !== undefined;
    this.#mark = undefined;
    if (mark !== undefined && (isStep || this.#parts.recorder.hasEvents)) {
      const returned = this.#numEnded === 0 && this.#notes.losses.length > 0 ? lossOf(value) : undefined;
      if (returned !== undefined && this.#notes.reported.length === 0) this.#notes.reported.push(returned);
      const ended = this.#parts.recorder.close(mark);
      if (isStep && this.#notes.losses.length === 0) this.#notes.losses.push(...this.#earlierLosses);
      if (this.#notes.losses.length > 0) this.#earlierLosses = isStep ? [] : this.#notes.losses;
      this.#hold({ ended, notes: this.#notes });
      this.#flush(isStep ? 'step' : 'cell');
    }
    this.drop();
  }

  /** Ends a cell that failed or was interrupted: its finished steps are recorded, and its unfinished step is not. */
  drop(): void {
    if (this.#send !== undefined && this.#mark !== undefined) this.#cut(this.#mark);
    this.#flush('step');
    this.forget();
  }

  /** Forgets the open cell, if there is one, because a termination may have skipped the call of `end`. */
  forget(): void {
    this.#send = undefined;
    this.#mark = undefined;
    this.#held = undefined;
    this.#parts.recorder.abandonStep();
  }

  /** Reports work on the main thread since `start` as a span. */
  #spanSince(name: SpanName, start: Seconds): void {
    const { engine, recorder } = this.#parts;
    recorder.span({ kind: 'span', name, module: '', start, end: engine.clock.now() });
  }

  /** Runs work and reports it as a span, unless units or DDP report their own spans while it runs. */
  #timed<T>(name: 'forward' | 'backward', work: () => T): T {
    const { engine, recorder } = this.#parts;
    recorder.reached?.({ name, module: '' });
    const [start, before] = [engine.clock.now(), recorder.numSpans];
    const result = work();
    if (recorder.numSpans === before) this.#spanSince(name, start);
    return result;
  }

  #moment(): Moment {
    const { engine, recorder } = this.#parts;
    return recorder.moment(engine.memory.bytes);
  }

  #markNow(): void {
    this.#mark = this.#moment();
  }

  #cut(mark: Moment): void {
    const ended = this.#parts.recorder.cut(mark);
    this.#hold({ ended, notes: this.#notes });
    this.#mark = undefined;
    this.#notes = emptyNotes();
    this.#numEnded++;
  }

  #hold(step: HeldStep): void {
    const held = this.#held;
    this.#held = step;
    if (held === undefined) return;
    const start = this.#parts.engine.clock.now();
    const isRecorded = (held.ended.start.step - 1) % this.#every === 0;
    this.#send?.(this.#stepOf(held, 'step', isRecorded ? 'totals' : 'none'));
    this.#spent += this.#parts.engine.clock.now() - start;
    const isLate = this.#spent > MOST_TIME * (start - this.#began);
    if (this.#numEnded > FIRST_STEPS && isLate && isRecorded) this.#every *= 2;
  }

  #flush(kind: CellStep['kind']): void {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) this.#send?.(this.#stepOf(held, kind, 'curve'));
  }

  #stepOf({ ended, notes }: HeldStep, kind: CellStep['kind'], detail: 'curve' | 'totals' | 'none'): CellStep {
    const { engine, recorder } = this.#parts;
    this.#warnOfLoss(ended);
    const loss = meanOf(notes.reported) ?? meanOf(notes.losses);
    const curve = detail === 'curve';
    const process_ = curve ? explainProcess(process.memoryUsage(), engine.memory) : null;
    // The times of a walked step contain the halts.
    const record =
      detail === 'none' || this.#isWalked
        ? null
        : recorder.recordOf(ended, { loss, curve, process: process_ });
    const isMinor = kind === 'cell' && record !== null && isOnlyTemporary(record);
    return {
      kind: isMinor ? 'minor' : kind,
      loss,
      lr: notes.lr,
      gradNorm: notes.gradNorm,
      seconds: ended.end.at - ended.start.at,
      record,
    };
  }

  #warnOfLoss({ events: { numDropped } }: EndedStep): void {
    if (numDropped === 0 || this.#hasWarned) return;
    this.#hasWarned = true;
    this.#parts.warn(
      `this cell ran so many collectives in one step that the ledger lacks the last ${numDropped} of them; ` +
        'run fewer collectives per cell, or call step() of an optimizer, which ends a step. This warning appears once',
    );
  }
}

function emptyNotes(): StepNotes {
  return { reported: [], losses: [], lr: null, gradNorm: null };
}

function meanOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Whether a cell only made temporary tensors: it neither communicated nor ran a model. */
function isOnlyTemporary({ collectives, spans, memory }: NonNullable<CellStep['record']>): boolean {
  const { owners, curve } = memory;
  if (collectives.length > 0 || spans.length > 0) return false;
  return curve?.owner.every((owner) => owners[owner]?.cause === 'temp') ?? false;
}

/** Returns the value of a scalar tensor, or the number; undefined for another value. */
export function scalarValueOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (!(value instanceof Tensor) || value.size !== 1 || value.isDisposed) return undefined;
  return value.dataSync()[0];
}

/** Returns a cell's value if it can be a loss: a float32 scalar, or a number that is not an integer. */
function lossOf(value: unknown): number | undefined {
  if (value instanceof Tensor && value.dtype !== 'float32') return undefined;
  const number = scalarValueOf(value);
  return value instanceof Tensor || !Number.isInteger(number) ? number : undefined;
}

import { setImmediate } from 'node:timers/promises';
import type { Engine } from '../../backend/engine';
import { describeDamage } from '../../backend/heap-health';
import type { CellError } from '../../cell/cell-error';
import { registerDisplay } from '../../cell/display';
import type { EvaluateResult, Evaluator } from '../../cell/evaluator';
import { toMimeBundle } from '../../cell/mime';
import { ShardlabError } from '../../core/errors';
import { now, type Seconds } from '../../core/units';
import type { CourierHandle } from '../control/courier-handle';
import type { Outcome, RankOutput, RankWork, ToMain } from '../control/messages';
import type { WorkBoard } from '../control/work-board';
import { rankError } from './error';
import type { RankScope } from './scope';
import { FUNCTION_NAME, runShipped, sendable } from './shipped-function';
import type { TensorPiles } from './tensor-piles';
import type { RankTraining } from './training';

/** A free main thread that was interrupted settles its work after this time, so that `finally` blocks can run. */
const INTERRUPT_GRACE_SECONDS = 0.05;

/**
 * [Note: lost ends] V8 may be told to end JavaScript at the very moment at which a work ends by itself; then it is this
 * thread's own code, on its way to report the end, that is cut off. A work that was interrupted and has not reported its end
 * after this time is reported here.
 */
const LOST_SECONDS = 0.25;

/** Key on globalThis under which the evaluator finds work that is not a cell. */
const TASK: unique symbol = Symbol.for('shardlab.task');

/** What a rank's main thread works with. */
export interface RankWorkerParts {
  readonly courier: CourierHandle;
  readonly evaluator: Evaluator;
  readonly engine: Engine;
  readonly scope: RankScope;
  readonly training: RankTraining;
  readonly board: WorkBoard;
  readonly piles: TensorPiles;
}

/**
 * The main thread's side of a rank: one work after the other. Everything runs in the evaluator, which settles also
 * where V8 was told to end what runs.
 */
export class RankWorker {
  readonly #parts: RankWorkerParts;
  /** The newest work; what is printed after its end still belongs to it. */
  #id = 0;
  /** The newest work whose end was reported. */
  #reported = 0;
  /** Ends the wait for a value that shows itself, at an interrupt. */
  #interrupted: () => void = () => undefined;

  constructor(parts: RankWorkerParts) {
    this.#parts = parts;
    registerDisplay({
      display: (bundle, options) => this.#show({ kind: 'display', bundle, displayId: options?.displayId }),
      update: (displayId, bundle) => this.#show({ kind: 'update', displayId, bundle }),
      clear: (wait = false) => this.#show({ kind: 'clear', wait }),
    });
  }

  /** Works on what the courier passes on; `end` is called when the rank is to end. */
  listen(end: () => Promise<void>): void {
    this.#parts.courier.receive((message: ToMain) => {
      if (message.type === 'work') void this.#work(message.id, message.work);
      if (message.type === 'interrupt') this.#interrupt(message.id, message.at);
      if (message.type === 'shutdown') void end();
    });
  }

  write(name: 'stdout' | 'stderr', text: string): void {
    this.#show({ kind: 'stream', name, text });
  }

  async #work(id: number, work: RankWork): Promise<void> {
    this.#id = id;
    this.#parts.board.running(work.kind === 'cell' ? work.cell : undefined);
    if (work.kind === 'cell') this.#parts.piles.enter(work.cell);
    const outcome = await this.#outcome(work);
    this.#parts.piles.look();
    // Node tells of promises that nobody awaits when a turn has ended: what they threw still belongs to this work.
    if (work.kind === 'cell' || work.kind === 'function') await setImmediate();
    this.#report(id, outcome);
  }

  /** Tells the end of a work, unless it was told. */
  #report(id: number, outcome: Outcome): void {
    if (id !== this.#id || id === this.#reported) return;
    const { courier, board, engine } = this.#parts;
    const damage = engine.damage && describeDamage(engine.damage);
    board.idle();
    courier.ended(id);
    courier.send({ type: 'ended', id, outcome, damage });
    this.#reported = id;
  }

  async #outcome(work: RankWork): Promise<Outcome> {
    const result = await this.#evaluate(work);
    if (!result.ok) return { ok: false, error: rankError(result.thrown, placed(work, result.error)) };
    try {
      if (work.kind !== 'cell') return { ok: true, value: sendable(result.value) };
      if (result.value !== undefined) await this.#showResult(result.value);
      return { ok: true, value: undefined };
    } catch (error) {
      return { ok: false, error: rankError(error) };
    }
  }

  #evaluate(work: RankWork): Promise<EvaluateResult> {
    const { evaluator } = this.#parts;
    if (work.kind === 'cell') return evaluator.evaluate(work.js, { name: `In[${work.cell}]` });
    // globalThis has no index type for symbols; the key is ours alone.
    (globalThis as { [TASK]?: () => unknown })[TASK] = () => this.#task(work);
    const name = work.kind === 'function' ? FUNCTION_NAME : work.kind;
    return evaluator.evaluate("await globalThis[Symbol.for('shardlab.task')]()", { name });
  }

  #task(work: Exclude<RankWork, { kind: 'cell' }>): unknown {
    const { scope, training, engine, courier } = this.#parts;
    switch (work.kind) {
      case 'function':
        return runShipped(work.source, scope, work.args);
      case 'recover':
        engine.recover();
        return training.recover();
      default:
        return training.perform(work, {
          mayStep: (index) => courier.mayStep(index),
          done: (step) => courier.send({ type: 'step', id: this.#id, step }),
          saving: (save, news) => courier.send({ type: 'save', save, news }),
          progress: (progress) => courier.send({ type: 'progress', id: this.#id, progress }),
        });
    }
  }

  /** Shows a cell's last value. A value that takes for ever to show itself can be interrupted. */
  async #showResult(value: unknown): Promise<void> {
    const interrupted = new Promise<undefined>((resolve) => {
      this.#interrupted = () => resolve(undefined);
    });
    const bundle = await Promise.race([toMimeBundle(value), interrupted]);
    if (bundle !== undefined) this.#show({ kind: 'result', bundle });
  }

  #interrupt(id: number, at: Seconds): void {
    if (id !== this.#id || id === this.#reported) return;
    // A main thread that hears of it late was blocked, and was given its time then.
    this.#parts.evaluator.interrupt(Math.max(0, INTERRUPT_GRACE_SECONDS - (now() - at)));
    this.#interrupted();
    // [Note: lost ends]
    setTimeout(() => this.#report(id, cutOff()), LOST_SECONDS * 1e3);
    this.#parts.courier.heard(id);
  }

  #show(output: RankOutput): void {
    this.#parts.courier.send({ type: 'output', id: this.#id, output });
  }
}

/** What a run does stands in no cell: the place would be one of our own program. */
function placed(work: RankWork, { line, column, ...error }: CellError): CellError {
  return work.kind === 'cell' || work.kind === 'function' ? { ...error, line, column } : error;
}

function cutOff(): Outcome {
  const error = new ShardlabError('INTERRUPTED', 'the work was interrupted; variables keep their values');
  return { ok: false, error: rankError(error) };
}

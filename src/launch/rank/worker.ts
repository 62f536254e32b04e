import { setImmediate } from 'node:timers/promises';
import { deserialize, serialize } from 'node:v8';
import {
  type EvaluateResult,
  type Evaluator,
  nameInCells,
  registerDisplay,
  type StrayError,
  toMimeBundle,
  toPlainText,
} from '../../cell';
import { globalSlot, now, type Seconds, ShardlabError } from '../../core';
import { currentEagerTape, describeDamage, type Engine } from '../../engine';
import { profileSteps, timeSteps } from '../../training';
import { benchCollectives, type ProcessGroup, type StatusWriter, type World } from '../../wire';
import type { CourierHandle } from '../control/courier-handle';
import type { Measurement } from '../control/measurement';
import type { RankOutcome, RankOutput, RankWork, ToMain } from '../control/messages';
import { decodeSent, encodeSent } from '../control/sent-values';
import { NO_CELL } from '../control/situation';
import type { CellSteps } from './cell-steps';
import { compile, explainedError, placeInFunction } from './compile';
import { rankError } from './error';
import type { CellReplicas } from './replicas';
import type { RankScope } from './scope';
import type { TensorPiles } from './tensor-piles';
import type { RankTraining } from './training';
import { freeNames, missingVariable, requireFree, valueToSend, withVariables } from './variables';
import type { Walker } from './walker';
import { interruptedWork, type WorkInterrupts } from './work-interrupts';

/** An interrupted work that is not blocked is terminated after this time, in which `finally` blocks can run. */
const INTERRUPT_GRACE_SECONDS = 0.05;

/**
 * [Note: lost ends] V8 may get the order to terminate JavaScript at the very moment when a work ends by itself. Then V8
 * terminates the worker's code that is about to report the end. So if an interrupted work's end is not reported within
 * this time, a timer reports it.
 */
const LOST_SECONDS = 0.25;

/** Stores work that is not a cell, so that the evaluator's code can call this work. */
const TASK = globalSlot<() => unknown>('shardlab.task');
const TASK_CALL = "globalThis[Symbol.for('shardlab.task')]()";

/** The parts that a rank's main thread needs. */
export interface RankWorkerParts {
  readonly courier: CourierHandle;
  readonly world: Pick<World, 'beginWork' | 'forget'>;
  readonly evaluator: Evaluator;
  readonly engine: Engine;
  readonly scope: RankScope;
  readonly training: RankTraining;
  /** The main thread writes its current work on this board. */
  readonly board: StatusWriter;
  readonly piles: TensorPiles;
  readonly steps: CellSteps;
  readonly replicas: CellReplicas;
  readonly interrupts: WorkInterrupts;
  readonly walker: Walker;
}

/**
 * Runs a rank's work on its main thread, one work after the other. All work runs in the evaluator, whose promise also
 * settles when V8 terminates the running code.
 */
export class RankWorker {
  readonly #parts: RankWorkerParts;
  /** The newest work; output after its end still belongs to it. */
  #id = 0;
  /** The newest work whose end was reported. */
  #reported = 0;
  /** Called at an interrupt: stops the wait for the display code of a cell's last value. */
  #interrupted: () => void = () => undefined;

  constructor(parts: RankWorkerParts) {
    this.#parts = parts;
    registerDisplay({
      display: (bundle, options) => this.#show({ kind: 'display', bundle, displayId: options?.displayId }),
      update: (displayId, bundle) => this.#show({ kind: 'update', displayId, bundle }),
      clear: (wait = false) => this.#show({ kind: 'clear', wait }),
    });
  }

  /** Performs the work that the courier forwards; calls `end` when the rank must end. */
  listen(end: () => Promise<void>): void {
    const { courier, evaluator } = this.#parts;
    courier.receive((message: ToMain) => {
      evaluator.repair();
      if (message.type === 'work') void this.#work(message.id, message.work);
      if (message.type === 'interrupt') this.#interrupt(message.id, message.at);
      if (message.type === 'shutdown') void end();
    });
  }

  write(name: 'stdout' | 'stderr', text: string): void {
    this.#show({ kind: 'stream', name, text });
  }

  reportStray({ thrown }: StrayError): void {
    const text = thrown instanceof Error ? String(thrown) : toPlainText(thrown);
    this.write('stderr', `Nobody caught: ${text}\n`);
  }

  async #work(id: number, work: RankWork): Promise<void> {
    this.#id = id;
    this.#parts.interrupts.begin(id);
    this.#parts.world.beginWork();
    this.#parts.board.running(work.kind === 'cell' ? work.cell : NO_CELL);
    if (work.kind === 'cell') this.#parts.piles.enter(work.cell);
    const isRecorded = work.kind === 'cell' || work.kind === 'function';
    const { steps, replicas, courier, training } = this.#parts;
    if ('walks' in work && work.walks === true) this.#parts.walker.begin(id);
    const eager = currentEagerTape();
    if (eager !== null) eager.isActive = isRecorded;
    replicas.begin();
    const { isWalking } = this.#parts.walker;
    if (isRecorded) steps.begin((step) => courier.send({ type: 'cellStep', id, step }), isWalking);
    const outcome = await this.#outcome(work);
    if (isRecorded) training.cellFaults.ended();
    const sums = outcome.ok && isRecorded ? replicas.sums() : [];
    if (sums.length > 0) courier.send({ type: 'replicas', id, sums });
    eager?.close();
    this.#parts.piles.look();
    // At the end of a turn of the event loop, Node reports rejected promises that nobody awaits; such errors belong to this work.
    if (isRecorded) await setImmediate();
    this.#report(id, outcome);
  }

  /** Reports the end of a work once. */
  #report(id: number, outcome: RankOutcome): void {
    if (id !== this.#id || id === this.#reported) return;
    const { courier, board, engine, interrupts, walker } = this.#parts;
    interrupts.end();
    walker.end();
    const damage = engine.damage && describeDamage(engine.damage);
    board.idle();
    courier.ended(id);
    courier.send({ type: 'ended', id, outcome, damage });
    this.#reported = id;
  }

  async #outcome(work: RankWork): Promise<RankOutcome> {
    const result = await this.#evaluate(work);
    const { steps } = this.#parts;
    if (!result.ok) {
      steps.drop();
      const { line, column, ...error } = result.error;
      // Other work did not begin in a cell's code, so the error's line would be a line of shardlab's own code.
      const isPlaced = work.kind === 'cell' || work.kind === 'function';
      const { rank } = this.#parts.scope;
      if (work.kind === 'get')
        return { ok: false, error: rankError(missingVariable(result.thrown, work.name, rank)) };
      const evalue = `${error.evalue}${placeInFunction(result.thrown)}`;
      return { ok: false, error: rankError(result.thrown, isPlaced ? result.error : { ...error, evalue }) };
    }
    try {
      steps.end(result.value);
      if (work.kind === 'put') return { ok: true, value: undefined };
      if (work.kind === 'get')
        return { ok: true, value: encodeSent({ [work.name]: valueToSend(result.value) }, 'job.get') };
      if (work.kind === 'function')
        return { ok: true, value: encodeSent({ value: result.value }, 'job.on().run') };
      if (work.kind !== 'cell') return { ok: true, value: deserialize(serialize(result.value)) };
      if (result.value !== undefined) await this.#showResult(result.value);
      return { ok: true, value: undefined };
    } catch (error) {
      return { ok: false, error: rankError(error) };
    }
  }

  #evaluate(work: RankWork): Promise<EvaluateResult> {
    const { evaluator } = this.#parts;
    if (work.kind === 'cell') return evaluator.evaluate(work.js, { name: `In[${work.cell}]` });
    if (work.kind === 'get') return evaluator.evaluate(nameInCells(work.name), { name: work.kind });
    const values = work.kind === 'put' ? decodeSent(work.coded) : {};
    TASK.value = () => (work.kind === 'put' ? requireFree(values, this.#parts.scope) : this.#task(work));
    const name = work.kind === 'function' ? FUNCTION_NAME : work.kind;
    const names = freeNames(values, this.#parts.scope);
    const code =
      names.length === 0
        ? `await ${TASK_CALL}`
        : `let { ${names.map((name) => `${name}: ${nameInCells(name)}`).join(', ')} } = ${TASK_CALL};`;
    return evaluator.evaluate(code, { name });
  }

  #task(work: Exclude<RankWork, { kind: 'cell' | 'get' | 'put' }>): unknown {
    const { scope, training, engine, courier, steps } = this.#parts;
    switch (work.kind) {
      case 'function':
        return runShipped(work.source, scope, Object.values(decodeSent(work.coded)));
      case 'measure':
        return measure(work.measurement, scope);
      case 'python':
      case 'exportOwn':
        throw new ShardlabError(
          'ENGINE',
          "this rank runs JavaScript; launch with engine: 'torch' for Python",
        );
      case 'recover':
        steps.forget();
        engine.recover();
        return this.#recover(work.lost);
      default:
        return training.perform(this.#id, work, courier);
    }
  }

  /** Makes runs usable again; if ranks were started again, returns the names that cells have declared here. */
  #recover(lost: readonly number[] | undefined): readonly string[] | undefined {
    const { training, world, evaluator } = this.#parts;
    training.recover();
    if (lost === undefined) return undefined;
    world.forget(lost);
    training.forgetGroups();
    return evaluator.declared();
  }

  /** Shows a cell's last value. If the value's own display code does not end, an interrupt ends the wait for it. */
  async #showResult(value: unknown): Promise<void> {
    const interrupted = new Promise<undefined>((resolve) => {
      this.#interrupted = () => resolve(undefined);
    });
    const bundle = await Promise.race([toMimeBundle(value), interrupted]);
    if (bundle !== undefined) this.#show({ kind: 'result', bundle });
  }

  #interrupt(id: number, at: Seconds): void {
    if (id !== this.#id || id === this.#reported) return;
    // A main thread that notices the interrupt late was blocked, and has already had its grace period.
    this.#parts.evaluator.interrupt(Math.max(0, INTERRUPT_GRACE_SECONDS - (now() - at)));
    this.#interrupted();
    // [Note: lost ends]
    setTimeout(
      () => this.#report(id, { ok: false, error: rankError(interruptedWork()) }),
      LOST_SECONDS * 1e3,
    );
    this.#parts.courier.heard(id);
  }

  #show(output: RankOutput): void {
    this.#parts.courier.send({ type: 'output', id: this.#id, output });
  }
}

/** The name in stack traces of a function that was sent as source code. */
export const FUNCTION_NAME = 'job.on().run';

/**
 * Runs the function with this source in this rank. Throws: CONFIG when the source is not a function, and the function's
 * errors.
 */
export async function runShipped(
  source: string,
  scope: RankScope,
  args: readonly unknown[],
): Promise<unknown> {
  const work = compile(source, FUNCTION_NAME);
  try {
    return await work(withVariables(scope), ...args);
  } catch (error) {
    throw explainedError(
      error,
      "A function is sent to ranks as source code: it sees its arguments and the rank's scope, " +
        'not the variables and imports of the notebook; pass their values as arguments of run(fn, ...args)',
    );
  }
}

/** Measures this rank; every rank of the job calls this function. Code is loaded on first use. */
async function measure(measurement: Measurement, scope: RankScope): Promise<unknown> {
  const { group, engine, rank } = scope;
  switch (measurement.kind) {
    case 'collectives': {
      const first = firstRanks(group, measurement.numRanks);
      return first === null ? [] : benchCollectives(first, engine, measurement.sizes);
    }
    case 'kernels': {
      const { numRanks, isAlone } = measurement;
      const own = isAlone ? aloneOf(group, numRanks)[rank] : firstRanks(group, numRanks);
      return own == null ? [] : profileSteps({ engine, group: own, ...measurement.profile });
    }
    case 'steps': {
      const together = firstRanks(group, measurement.numRanks);
      return together === null ? [] : timeSteps({ engine, group: together, ...measurement.profile });
    }
    case 'maxRss':
      return process.resourceUsage().maxRSS;
    default:
      return measurement satisfies never;
  }
}

/** Returns an entry per rank: for this rank, a group that has only this rank; for other ranks, null. */
function aloneOf(group: ProcessGroup, numRanks: number): readonly (ProcessGroup | null)[] {
  return group.ranks.slice(0, numRanks).map((rank) => group.subgroup([rank], `rank ${rank} alone`));
}

function firstRanks(group: ProcessGroup, numRanks: number): ProcessGroup | null {
  return numRanks === group.size ? group : group.subgroup(group.ranks.slice(0, numRanks), 'measured');
}

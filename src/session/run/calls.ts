import { setTimeout as delay } from 'node:timers/promises';
import type { TrainConfig } from '../../config';
import { ConfigError, type Seconds, ShardlabError } from '../../core';
import {
  type CallSink,
  FoldedLines,
  firstRanks,
  type GroupRef,
  type ProbeResult,
  type RankGroups,
  type RankWork,
  type Supervisor,
} from '../../launch';
import type { TorchRun } from '../../torch';
import type { PreparedData } from '../../training';
import type { Link, Nodes } from '../../wire';
import type { OwnWork } from '../plans/own';
import type { RunHistory } from './history';
import type { MadeEvents } from './recorded-step';

/** The parts that a run gets from its job. */
export interface RunHome {
  /** The launcher's part of a run on PyTorch; undefined if ranks run this library's engine. */
  readonly torch?: TorchRun | undefined;
  /** The number of this run among the runs of its job. */
  readonly number: number;
  readonly supervisor: Supervisor;
  readonly groups: RankGroups;
  /** The job's shaped wire, if there is one. */
  readonly link?: Link | undefined;
  /** The job's nodes, if it has any. */
  readonly nodes?: Nodes | undefined;
}

/** The parts that the work of a run needs. */
export interface RunParts extends RunHome {
  readonly calls: RunCalls;
  readonly history: RunHistory;
  readonly made: MadeEvents;
  /** The user's own data; undefined if the config's data are built in. */
  readonly data: PreparedData | undefined;
  /** The user's functions; undefined if there are none. */
  readonly own: OwnWork | undefined;
  /** The number of steps after which ranks copy their states to each other; undefined: never. */
  readonly copySteps?: number | undefined;
}

/** The kinds of work that a run sends to its ranks. */
export type RunWork = Exclude<
  RankWork,
  { kind: 'cell' | 'function' | 'python' | 'put' | 'get' | 'recover' | 'group' | 'measure' | 'plant' }
>;

/** Sends a run's work to its ranks; when the run has ended, work is refused. */
export class RunCalls {
  readonly #run: number;
  readonly #supervisor: Supervisor;
  readonly #torch: TorchRun | undefined;
  #ended: ShardlabError | undefined;
  /** Why the run waits for job.heal(): ranks that held parts of it have ended, or they may hold different parameters. */
  #lost: ShardlabError | undefined;
  /** Whether ranks have got the newest work. */
  #hasBegun = false;
  #saved: SavedRun | undefined;
  /** The number of interrupts when the user's call began whose work this is; undefined between such calls. */
  #since: number | undefined;

  constructor({ number, supervisor, torch }: RunHome) {
    this.#torch = torch;
    this.#run = number;
    this.#supervisor = supervisor;
  }

  /**
   * Does the work of a call that the user made after `since` interrupts: a later interrupt also ends the work between two
   * calls on ranks, and before the first.
   */
  async during<T>(since: number, work: () => Promise<T>): Promise<T> {
    const before = this.#since;
    this.#since = since;
    try {
      return await work();
    } finally {
      this.#since = before;
    }
  }

  /**
   * Runs work on the job's first `numRanks` ranks. `lines` gets each line that ranks write during the call,
   * and writes the lines that it still holds when the call ends. Throws: CLOSED when the run has ended, and errors of calls on
   * ranks.
   */
  async on<T>(numRanks: number, work: RunWork, sink: CallSink = {}, lines = new FoldedLines()): Promise<T[]> {
    if (this.ended !== undefined) throw this.ended;
    this.#hasBegun = false;
    const begins = (): void => {
      sink.begins?.();
      this.#hasBegun = true;
    };
    const need = this.#torch && { need: this.#torch.answer };
    const heard: CallSink = { ...sink, ...need, begins, output: (event) => lines.add(event) };
    try {
      // For each kind of work, ranks return values of the type that the caller names.
      return (await this.#supervisor.run(firstRanks(numRanks), work, heard, this.#since)) as T[];
    } finally {
      lines.end(numRanks);
    }
  }

  /** Measures two steps of a config on the run's ranks, even after the run has ended. Throws: errors of calls on ranks. */
  async probe(
    config: TrainConfig,
    { data, own }: Pick<RunParts, 'data' | 'own'>,
    group: GroupRef,
  ): Promise<ProbeResult[]> {
    // Runs have positive numbers, so a negative number is no run's number.
    const work = { kind: 'probe', run: -this.#run, config, data, own: own?.sources, group } as const;
    return (await this.#supervisor.run(firstRanks(group.size), work, {}, this.#since)) as ProbeResult[]; // ranks answer a probe with this type
  }

  /**
   * Ends the run after its newest work failed: refuses further work, because ranks may hold different parameters. Work that
   * ranks never got does not end the run. `what` says when the work failed.
   */
  breakOff(what: string, cause: unknown): void {
    if (!this.#hasBegun) return;
    const why = cause instanceof Error ? cause.message : String(cause);
    if (this.#torch === undefined && isDeath(cause)) {
      const from = this.#saved === undefined ? '' : ` from '${this.#saved.path}' or a newer copy`;
      this.lose(`this run broke off ${what}; await job.heal() continues it${from}. It ended with: ${why}`);
      return;
    }
    this.#ended ??= new ShardlabError(
      'CLOSED',
      `this run broke off ${what}, so its ranks may hold different parameters; ${this.#again}. It ended with: ${why}`,
      { cause },
    );
  }

  /** The error that says why the run has ended or waits for job.heal(); undefined if the run works. */
  get ended(): ShardlabError | undefined {
    return this.#ended ?? this.#lost;
  }

  /** Refuses work until `regain` is called. */
  lose(why: string): void {
    this.#lost = new ShardlabError('CLOSED', why);
  }

  /** Whether the run waits for job.heal(). */
  get isLost(): boolean {
    return this.#lost !== undefined && this.#ended === undefined;
  }

  /** Accepts work again. */
  regain(): void {
    this.#lost = undefined;
  }

  /** Stores the newest checkpoint; errors of an ended run then say how to continue from it. */
  saved(newest: SavedRun | undefined): void {
    this.#saved = newest;
  }

  /** The newest complete checkpoint. */
  get newestCheckpoint(): SavedRun | undefined {
    return this.#saved;
  }

  /** Frees the model on ranks; with `keepsCopies`, the ranks keep the copies of its states. */
  async free(numRanks: number, keepsCopies = false): Promise<void> {
    const work = { kind: 'disposeRun', run: this.#run, keepsCopies } as const;
    await this.#supervisor.run(firstRanks(numRanks), work, {});
  }

  /** Refuses further work and frees the model. */
  async dispose(numRanks: number): Promise<void> {
    const wasLost = this.isLost;
    this.#ended ??= new ShardlabError('CLOSED', `this run was disposed; ${this.#again}`);
    // Ranks that have ended hold nothing, and until they are healed, the others get no work.
    if (wasLost) await this.free(numRanks).catch(() => undefined);
    else await this.free(numRanks);
  }

  get #again(): string {
    if (this.#saved === undefined) return 'make another with job.train(config)';
    return `continue from the last checkpoint with job.train(config).load('${this.#saved.path}')`;
  }
}

/** A complete checkpoint of a run; `step` is null if it has only parameters. */
export interface SavedRun {
  readonly path: string;
  readonly step: number | null;
}

/** Whether a call failed because a rank's process ended. */
function isDeath(cause: unknown): boolean {
  return cause instanceof ShardlabError && typeof cause.details.exit === 'object';
}

/** Sets the learning rate of the next step on all ranks. Throws: errors of calls on ranks. */
export async function sendRate(
  { calls, history, number: run, torch }: Pick<RunParts, 'calls' | 'history' | 'number' | 'torch'>,
  lr: number,
): Promise<void> {
  torch?.setRate(lr, history.numUpdates);
  await calls.on(history.phase.world, { kind: 'rate', run, lr });
}

/** An interrupt waits at least this long for the end of running work; then the work is aborted. */
const STOP_MS = 3000;

/** The kinds of work with which a run can be busy. */
type Business =
  | 'stepping'
  | 'walking'
  | 'comparing'
  | 'resharding'
  | 'saving'
  | 'loading'
  | 'evaluating'
  | 'sampling'
  | 'healing';

/*
 * [Note: lines of calls] An error shows the line of the cell that made the call, because V8 follows a chain of awaits from the
 * error to the cell. The chain ends where an async function returns a promise without `await`, and at a promise to which
 * anything else than one `await` listens. So each function between a method of a run and its work has `return await`. An error of a
 * rank has the rank's stack, and no chain leads to it: `withCallLine` adds the frames of the call.
 */

const CELL_FRAME = /^\s+at .*\bIn\[\d+\]:\d/;

/** Runs a call's work; an error whose stack has no line of a cell gets the lines of the cell that made the call. */
export async function withCallLine<T>(work: () => Promise<T>): Promise<T> {
  const call = new Error('the call');
  try {
    return await work();
  } catch (error) {
    if (error instanceof ShardlabError && !cellFrames(error).length)
      error.stack = [error.stack ?? String(error), ...cellFrames(call)].join('\n');
    throw error;
  }
}

function cellFrames({ stack = '' }: Error): readonly string[] {
  return stack.split('\n').filter((line) => CELL_FRAME.test(line));
}

/**
 * Allows one piece of a run's work at a time. New work waits for work that is stopping, and is refused during other
 * work.
 */
export class RunTurns {
  #turn: { readonly business: Business; readonly ended: Promise<unknown> } | undefined;
  #isStopping = false;
  /** Ends the wait for the user's functions; undefined if no work waits for them. */
  #giveUp: ((error: ShardlabError) => void) | undefined;

  /** Runs `work` alone. Throws: CONFIG while other work runs, unless it is stopping; and errors of `work`. */
  async take<T>(business: Business, work: () => Promise<T>): Promise<T> {
    const before = this.#turn;
    if (this.isLent && business === 'stepping') {
      throw new ConfigError(
        "a callback cannot train its own run: the run's step waits for the callback; train after run.step or in a loop over run.steps()",
      );
    }
    if (before?.business === 'walking' && !this.#isStopping) {
      throw new ConfigError(`this run halts in a walk; end it with await walk.live() before ${business}`);
    }
    if (before !== undefined && !this.#isStopping) {
      throw new ConfigError(
        `this run is already ${before.business}; await the running call before ${business === before.business ? `${business} again` : business}`,
      );
    }
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const turn = { business, ended };
    this.#turn = turn;
    try {
      return await this.#after(before?.ended, work);
    } finally {
      end();
      if (this.#turn === turn) this.#turn = undefined;
    }
  }

  /** Whether running work waits for the user's functions. */
  get isLent(): boolean {
    return this.#giveUp !== undefined;
  }

  /**
   * Runs the user's functions within the running work; meanwhile the run may evaluate, save, and so on, but not train. Throws:
   * INTERRUPTED when `stop` is called, even if the functions never end.
   */
  async lend<T>(functions: () => Promise<T>): Promise<T> {
    const turn = this.#turn;
    this.#turn = undefined;
    const stopped = new Promise<never>((_, reject) => {
      this.#giveUp = reject;
    });
    try {
      return await Promise.race([functions(), stopped]);
    } finally {
      // A user's function may have started work without awaiting it.
      await this.#ended();
      this.#giveUp = undefined;
      this.#turn = turn;
    }
  }

  /**
   * Waits for the end of running work. Returns whether the work ended in time, or 'idle' if no work had to be awaited. A
   * save can be aborted at any moment, so `stop` does not wait for it; the next work waits until the checkpoint is in
   * place or was given up. `tell` asks the work to end, and returns false if the work is still waiting for its ranks. `stop`
   * gives the work at least `seconds` to end.
   */
  async stop(tell: () => boolean, seconds: Seconds = 0): Promise<'stopped' | 'late' | 'idle'> {
    const turn = this.#turn;
    this.#giveUp?.(
      new ShardlabError('INTERRUPTED', 'a callback of the run was interrupted; the run is intact'),
    );
    if (turn === undefined) return 'idle';
    this.#isStopping = true;
    if (turn.business === 'saving') return 'idle';
    if (!tell()) return 'idle';
    const limit = new AbortController();
    const late = delay(Math.max(STOP_MS, seconds * 1e3), 'late' as const, { signal: limit.signal });
    const stopped = turn.ended.then(() => 'stopped' as const);
    return Promise.race([stopped, late]).finally(() => limit.abort());
  }

  #ended(): Promise<unknown> | undefined {
    return this.#turn?.ended;
  }

  /** Waits for stopped work that is still ending. */
  async #after<T>(ended: Promise<unknown> | undefined, work: () => Promise<T>): Promise<T> {
    await ended;
    this.#isStopping = false;
    return await work();
  }
}

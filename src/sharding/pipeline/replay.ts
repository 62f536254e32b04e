import { type Seconds, ShardlabError } from '../../core';
import type { Action } from './schedules';

/** An action with its start and end, in seconds after the step's first action begins. */
export interface TimedAction extends Action {
  /** The rank's index in the pipeline. */
  readonly rank: number;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** A step of a pipeline in which each rank has its own core. */
export interface Replay {
  readonly actions: readonly TimedAction[];
  readonly seconds: Seconds;
  /** The share of the step in which a rank has nothing to do, averaged over ranks. */
  readonly bubble: number;
}

/** Options of `replay`. */
export interface ReplayOptions {
  /** How long an action takes on a rank. */
  readonly secondsOf: (action: Action, rank: number) => Seconds;
  /** How long a transfer between ranks takes. Ranks compute during transfers. Default 0. */
  readonly hop?: Seconds | undefined;
}

/**
 * Runs the ranks' actions in simulated time: each rank runs its actions in order, and an action begins when its inputs have
 * arrived. Chunk c of rank p is stage c·P + p of the pipeline. Throws: CONFIG if ranks would wait for each other forever; the
 * error says who waits for which microbatch of which stage.
 */
export function replay(byRank: readonly (readonly Action[])[], options: ReplayOptions): Replay {
  const { secondsOf, hop = 0 } = options;
  const pipeline = new Needs(byRank);
  const ends = new Map<string, Seconds>();
  const next = byRank.map(() => 0);
  const free: Seconds[] = byRank.map(() => 0);
  const actions: TimedAction[] = [];
  for (let progressed = true; progressed; ) {
    progressed = false;
    byRank.forEach((own, rank) => {
      for (let action = own[next[rank] ?? 0]; action !== undefined; action = own[next[rank] ?? 0]) {
        const needs = pipeline.of(action, rank);
        if (!needs.every(({ key }) => ends.has(key))) return;
        const arrivals = needs.map(({ key, rank: from }) => (ends.get(key) ?? 0) + (from === rank ? 0 : hop));
        const start = Math.max(free[rank] ?? 0, ...arrivals);
        const end = start + secondsOf(action, rank);
        free[rank] = end;
        ends.set(pipeline.key(action.kind, pipeline.stageOf(action, rank), action.microbatch), end);
        actions.push({ ...action, rank, start, end });
        next[rank] = (next[rank] ?? 0) + 1;
        progressed = true;
      }
    });
  }
  const stuck = byRank.flatMap((own, rank) => {
    const action = own[next[rank] ?? 0];
    return action === undefined ? [] : [{ action, rank }];
  });
  if (stuck.length > 0) throw waitForever(stuck, pipeline, ends);
  const seconds = Math.max(0, ...free);
  const busy = actions.reduce((sum, { start, end }) => sum + end - start, 0);
  return { actions, seconds, bubble: seconds === 0 ? 0 : 1 - busy / (seconds * byRank.length) };
}

/** An action that must end before another action begins. */
interface Need {
  readonly key: string;
  readonly rank: number;
  readonly text: string;
}

/** Finds the actions that must end before an action of a pipeline can begin. */
class Needs {
  readonly #numRanks: number;
  readonly #numStages: number;
  /** By stage and microbatch, the kind of the action that sends the gradient of the stage's input. */
  readonly #senders = new Map<string, Action['kind']>();

  constructor(byRank: readonly (readonly Action[])[]) {
    this.#numRanks = byRank.length;
    const chunks = byRank.flatMap((own) => own.map(({ chunk }) => chunk + 1));
    this.#numStages = this.#numRanks * Math.max(1, ...chunks);
    byRank.forEach((own, rank) => {
      for (const action of own) {
        if (action.kind !== 'forward' && action.kind !== 'backwardWeight')
          this.#senders.set(`${this.stageOf(action, rank)} ${action.microbatch}`, action.kind);
      }
    });
  }

  stageOf({ chunk }: Action, rank: number): number {
    return chunk * this.#numRanks + rank;
  }

  key(kind: Action['kind'], stage: number, microbatch: number): string {
    return `${kind} ${stage} ${microbatch}`;
  }

  of(action: Action, rank: number): Need[] {
    const { kind, microbatch } = action;
    const stage = this.stageOf(action, rank);
    const need = (needed: Action['kind'], at: number): Need => ({
      key: this.key(needed, at, microbatch),
      rank: at % this.#numRanks,
      text: `the ${needed === 'forward' ? 'output' : 'gradient'} of microbatch ${microbatch} from stage ${at}`,
    });
    if (kind === 'forward') return stage === 0 ? [] : [need('forward', stage - 1)];
    if (kind === 'backwardWeight') return [need('backwardInput', stage)];
    const after = stage + 1;
    const own = need('forward', stage);
    if (after === this.#numStages) return [own];
    return [own, need(this.#senders.get(`${after} ${microbatch}`) ?? 'backward', after)];
  }
}

function waitForever(
  stuck: readonly { readonly action: Action; readonly rank: number }[],
  pipeline: Needs,
  ends: ReadonlyMap<string, Seconds>,
): ShardlabError {
  const waits = stuck.map(({ action, rank }) => {
    const missing = pipeline.of(action, rank).find(({ key }) => !ends.has(key));
    return `rank ${rank} waits for ${missing?.text ?? 'nothing'}`;
  });
  return new ShardlabError(
    'CONFIG',
    `the pipeline's schedule cannot end: ${waits.join('; ')}. Give every stage the same microbatches, in orders in which no rank waits forever`,
  );
}

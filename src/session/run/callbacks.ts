import { functionSchema, parseOptions } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import type { StepResult } from '../../training';
import type { RunSave } from './checkpoints';
import type { Evaluation } from './inference';

/**
 * Functions that a run calls while it trains, with the names of transformers' TrainerCallback. They may be async; the next step
 * waits for them. If one returns 'stop', the training ends after that step.
 */
export interface RunCallback<R> {
  /** Called after each step. */
  readonly onStepEnd?: (result: StepResult, run: R) => unknown;
  /** Called after each evaluation. */
  readonly onEvaluate?: (evaluation: Evaluation, run: R) => unknown;
  /** Called when the checkpoint of a save is in place; for a save with `async: true`, when the state is copied. */
  readonly onSave?: (save: RunSave, run: R) => unknown;
}

type EventName = keyof RunCallback<never>;

/** The first argument of an event's functions: a step's result, an evaluation, or a save. */
export type CallbackValue<Name extends EventName> = Parameters<NonNullable<RunCallback<never>[Name]>>[0];

const EVENT = functionSchema<(value: never, run: never) => unknown>();
const EVENTS = { onStepEnd: EVENT, onEvaluate: EVENT, onSave: EVENT } satisfies Record<EventName, unknown>;

/** A callback that the user added, and the line that added it. */
interface Registered<R> {
  readonly callback: RunCallback<R>;
  /** The cell and line that added the callback: 'In[3]:2'; '' outside of cells. */
  readonly place: string;
}

/** The callbacks of a run. */
export class Callbacks<R> {
  readonly #registered = new Set<Registered<R>>();

  /** Adds a callback; the returned function removes it. Throws: CONFIG for names that are not events. */
  add(callback: RunCallback<R>): () => void {
    const given = parseOptions('run.addCallback({ … })', callback, EVENTS);
    if (Object.keys(given).length === 0) {
      const names = Object.keys(EVENTS).join(', ');
      throw new ConfigError(`run.addCallback: the object has no functions; give ${names}`);
    }
    const registered = { callback, place: cellPlace(new Error()) };
    this.#registered.add(registered);
    return () => void this.#registered.delete(registered);
  }

  /** Whether there is a callback for an event. */
  has(name: EventName): boolean {
    return [...this.#registered].some(({ callback }) => callback[name] !== undefined);
  }

  /** Calls the callbacks of an event, one after the other; returns 'stop' if one of them does. Throws: CALLBACK. */
  async call<Name extends EventName>(
    name: Name,
    value: CallbackValue<Name>,
    run: R,
  ): Promise<'stop' | undefined> {
    let answer: 'stop' | undefined;
    for (const { callback, place } of [...this.#registered]) {
      // The value belongs to this event, but the compiler does not know which function belongs to which event.
      const call = callback[name] as ((value: unknown, run: R) => unknown) | undefined;
      const returned = await userCode(`the callback ${name}`, place, () => call?.call(callback, value, run));
      if (returned === 'stop') answer = 'stop';
    }
    return answer;
  }
}

/**
 * Runs a user's function. Throws: CALLBACK, which names `what` and the cell's line; an INTERRUPTED error is thrown
 * unchanged.
 */
export async function userCode(what: string, place: string, work: () => unknown): Promise<unknown> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof ShardlabError && thrown.code === 'INTERRUPTED') throw thrown;
    const at = cellPlace(thrown) || place;
    const text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
    throw new ShardlabError('CALLBACK', `${what}${at === '' ? '' : ` (${at})`} failed with ${text}`, {
      cause: thrown,
      details: { callback: what, place: at },
    });
  }
}

/** Returns the cell and line of an error's first frame in a cell: 'In[3]:2'; '' if there is none. */
export function cellPlace(thrown: unknown): string {
  const stack = thrown instanceof Error ? thrown.stack : undefined;
  return /\bIn\[\d+\]:\d+/.exec(stack?.replace(/^.*\n/, '') ?? '')?.[0] ?? '';
}

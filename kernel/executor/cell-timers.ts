import { promisify } from 'node:util';
import type { OutputChannel } from './output-channel';
import type { ExecutionId } from './protocol';

type Callback = (...values: unknown[]) => void;
type Start = (callback: Callback, ...rest: unknown[]) => object;

/** The timers that cells have started, by execution. */
export type CellTimers = ReturnType<typeof trackTimers>;

/**
 * Makes the global timers run their callbacks as part of the execution that started them.
 * Only timers that a cell's own code starts are tracked, because timers of libraries must survive an interrupt.
 */
export function trackTimers(channel: OutputChannel) {
  const started = new Map<ExecutionId, Set<object>>();
  const own = (id: ExecutionId): Set<object> => {
    const timers = started.get(id) ?? new Set();
    started.set(id, timers);
    return timers;
  };
  const wrap = (start: Start, once: boolean): Start => {
    const wrapped: Start = (callback, ...rest) => {
      if (!calledByCell(wrapped)) return start(callback, ...rest);
      const id = channel.current;
      const timers = own(id);
      const timer = start(
        (...values) => {
          if (once) timers.delete(timer);
          channel.within(id, () => callback(...values));
        },
        ...rest,
      );
      timers.add(timer);
      return timer;
    };
    // With this property, util.promisify(setTimeout) still works.
    return Object.assign(wrapped, { [promisify.custom]: Reflect.get(start, promisify.custom) });
  };
  for (const name of ['setTimeout', 'setInterval', 'setImmediate'] as const) {
    // At run time, the function accepts a callback and any values; the typed overloads allow less.
    const start = globalThis[name] as unknown as Start;
    Reflect.set(globalThis, name, wrap(start, name !== 'setInterval'));
  }
  return {
    /**
     * Stops the timers of an execution, so that an interrupted loop that sleeps between its iterations does not wake up
     * again.
     */
    stop(id: ExecutionId): void {
      // clearTimeout also ends intervals, and clearImmediate ignores other timers.
      for (const timer of started.get(id) ?? []) {
        clearTimeout(timer as NodeJS.Timeout);
        clearImmediate(timer as NodeJS.Immediate);
      }
      started.delete(id);
    },
  };
}

function calledByCell(callee: Start): boolean {
  const holder = { stack: '' };
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 1;
  Error.captureStackTrace(holder, callee);
  Error.stackTraceLimit = limit;
  return /\bIn\[\d+\]:\d/.test(holder.stack);
}

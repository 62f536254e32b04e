import type { Engine } from './engine';

/** Runs `work`, then `undo`. An interrupt of `work` skips every `finally`; in this case the next `recover` runs `undo`. */
export function undone<T>(engine: Pick<Engine, 'onRecover'>, undo: () => void, work: () => T): T {
  const forget = engine.onRecover(undo);
  try {
    return work();
  } finally {
    forget();
    undo();
  }
}

import type { Engine } from './engine';

/** Runs `work`, then `undo`: by the next `recover` where `work` was cut off, for then no `finally` runs. */
export function undone<T>(engine: Pick<Engine, 'onRecover'>, undo: () => void, work: () => T): T {
  const forget = engine.onRecover(undo);
  try {
    return work();
  } finally {
    forget();
    undo();
  }
}

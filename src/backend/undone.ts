import type { Engine } from './engine';

/** Runs `work`, then `undo`. If `work` is interrupted, no `finally` runs; then the next `recover` runs `undo`. */
export function undone<T>(engine: Pick<Engine, 'onRecover'>, undo: () => void, work: () => T): T {
  const forget = engine.onRecover(undo);
  try {
    return work();
  } finally {
    forget();
    undo();
  }
}

const EVENTS = ['uncaughtException', 'unhandledRejection'] as const;

/**
 * Runs `load` and takes away the process-wide handlers of errors that it leaves. The wasm backend's loader (Emscripten)
 * installs some that throw again, so that one stray rejection of a cell would end the process.
 */
export async function withoutForeignHandlers<T>(load: () => Promise<T>): Promise<T> {
  const before = EVENTS.map((event) => new Set(process.rawListeners(event)));
  try {
    return await load();
  } finally {
    EVENTS.forEach((event, i) => {
      for (const listener of process.rawListeners(event)) {
        // process's typings name the arguments of each event; removal does not look at them.
        if (!before[i]?.has(listener))
          process.removeListener(event, listener as (...args: unknown[]) => void);
      }
    });
  }
}

const EVENTS = ['uncaughtException', 'unhandledRejection'] as const;

/**
 * Runs `load` and removes the process-wide error handlers that it installs. The wasm backend's loader (Emscripten)
 * installs handlers that throw again, so one stray rejection of a cell would end the process.
 */
export async function withoutForeignHandlers<T>(load: () => Promise<T>): Promise<T> {
  const before = EVENTS.map((event) => new Set(process.rawListeners(event)));
  try {
    return await load();
  } finally {
    EVENTS.forEach((event, i) => {
      for (const listener of process.rawListeners(event)) {
        // The types of `process` name the arguments of each event; removal does not use them.
        if (!before[i]?.has(listener))
          process.removeListener(event, listener as (...args: unknown[]) => void);
      }
    });
  }
}

const REPAIR: unique symbol = Symbol('shardlab.repair');

/**
 * [Note: repair after termination] V8 skips `finally` when it ends running JavaScript, so Node's own stack of
 * asynchronous contexts keeps entries of callbacks that never returned. Node clears that stack after handling an
 * uncaught exception, so this function throws one and handles it.
 */
export function repairAfterTermination(): void {
  setImmediate(() => {
    process.prependOnceListener('uncaughtException', ignoreRepair);
    throw REPAIR;
  });
}

/** Whether an uncaught exception is the one thrown for repair, which must not be reported. */
export function isRepair(thrown: unknown): boolean {
  return thrown === REPAIR;
}

function ignoreRepair(): void {
  // A listener is enough to make Node handle the exception; there is nothing else to do.
}

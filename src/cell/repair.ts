const REPAIR: unique symbol = Symbol('shardlab.repair');

/**
 * [Note: repair after termination] V8 skips `finally` when it ends running JavaScript, so Node's own stack of asynchronous
 * contexts keeps entries of callbacks that never returned. Node clears that stack when an uncaught exception was handled: one
 * is thrown for this purpose and handled here.
 */
export function repairAfterTermination(): void {
  setImmediate(() => {
    process.prependOnceListener('uncaughtException', ignoreRepair);
    throw REPAIR;
  });
}

/** Whether an uncaught exception is the one thrown for repair, which nobody should report. */
export function isRepair(thrown: unknown): boolean {
  return thrown === REPAIR;
}

function ignoreRepair(): void {
  // Its being a listener is what makes Node handle the exception; there is nothing else to do.
}

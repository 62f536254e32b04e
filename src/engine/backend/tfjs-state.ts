import * as tf from '../../core/tf';

/** The state of tfjs's engine: tapes, scopes and kernels in progress. */
export type TfjsState = ReturnType<typeof tf.engine>['state'];

/** An operation on a tape. */
export type TapeNode = TfjsState['activeTape'][number];

/** Returns the state of tfjs's engine; a process has one engine. */
export function tfjsState(): TfjsState {
  return tf.engine().state;
}

/** The name of the scope that `untracked` opens. */
export const UNTRACKED = 'untracked';

/**
 * Runs `work` outside of all tidy scopes and tapes: tensors that `work` makes exist until they are disposed, and no gradient
 * flows through `work`. Tidy scopes that `work` opens work as usual.
 */
export function untracked<T>(work: () => T): T {
  const state = tfjsState();
  const { activeScope, gradientDepth, kernelDepth } = state;
  const depth = state.scopeStack.length;
  tf.engine().startScope(UNTRACKED);
  state.gradientDepth = 0;
  state.kernelDepth = 0;
  try {
    return work();
  } finally {
    // The scope is dropped, not ended, because ending it would dispose its tensors.
    state.scopeStack.length = depth;
    state.activeScope = activeScope;
    state.gradientDepth = gradientDepth;
    state.kernelDepth = kernelDepth;
  }
}

/** Ends all open tidy scopes, tapes and kernels, and disposes the scopes' tensors unless `spare` returns true. */
export function unwindTfjs(spare: (tensor: tf.Tensor) => boolean): void {
  const state = tfjsState();
  const scopes = state.scopeStack;
  state.scopeStack = [];
  // In tfjs's types, `activeScope` and `activeTape` are never null, but tfjs itself starts with null.
  state.activeScope = null as unknown as TfjsState['activeScope'];
  state.activeTape = null as unknown as TfjsState['activeTape'];
  state.gradientDepth = 0;
  state.kernelDepth = 0;
  state.numDataMovesStack = [];
  state.profiling = false;
  for (const scope of scopes) {
    for (const tensor of scope.track) {
      if (!tensor.kept && !tensor.isDisposed && !spare(tensor)) tensor.dispose();
    }
  }
}

/**
 * Replaces a function of tfjs's engine. The returned function restores the earlier function, but does nothing if the new
 * function was replaced in the meantime.
 */
export function replaceEngineFunction(
  name: 'runKernel' | 'readSync' | 'read',
  make: (before: (...args: unknown[]) => unknown) => (...args: never[]) => unknown,
): () => void {
  const engine = tf.engine();
  const before = Object.getOwnPropertyDescriptor(engine, name);
  const run = engine[name] as (...args: unknown[]) => unknown;
  const value = make((...args) => Reflect.apply(run, engine, args));
  Object.defineProperty(engine, name, { value, configurable: true });
  return () => {
    if (Object.getOwnPropertyDescriptor(engine, name)?.value !== value) return;
    if (before === undefined) Reflect.deleteProperty(engine, name);
    else Object.defineProperty(engine, name, before);
  };
}

/** Returns a kernel's outputs without running the kernel, or undefined if the kernel must run. */
type KernelStandIn = (
  kernelName: string,
  inputs: tf.NamedTensorMap,
  attrs: tf.NamedAttrMap | undefined,
) => tf.Tensor | tf.Tensor[] | undefined;

/**
 * Calls `standIn` in place of each kernel that an operation calls (but not in place of kernels that other kernels call). The
 * returned function ends the replacement.
 */
export function interceptKernels(standIn: KernelStandIn): () => void {
  return replaceEngineFunction('runKernel', (run) => (...call: Parameters<KernelStandIn>) => {
    const outputs = tfjsState().kernelDepth === 0 ? standIn(...call) : undefined;
    return outputs ?? run(...call);
  });
}

/**
 * Calls `report` with every buffer whose values dataSync(), data() or a similar function reads. The returned function ends the
 * reports.
 */
export function watchHostReads(report: (dataId: object) => void): () => void {
  const ends = (['readSync', 'read'] as const).map((name) =>
    replaceEngineFunction(name, (read) => (dataId: object) => {
      report(dataId);
      return read(dataId);
    }),
  );
  return () => {
    for (const end of ends) end();
  };
}

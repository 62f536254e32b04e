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
  name: 'runKernel' | 'runKernelFunc' | 'readSync' | 'read',
  make: (before: (...args: unknown[]) => unknown) => (...args: never[]) => unknown,
): () => void {
  const engine = tf.engine();
  const before = Object.getOwnPropertyDescriptor(engine, name);
  // `runKernelFunc` is private in tfjs's types.
  const run = (engine as unknown as Readonly<Record<string, (...args: unknown[]) => unknown>>)[name];
  if (run === undefined) throw new Error(`tfjs's engine has no ${name}`);
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

/** Listens to the operations of tfjs's engine. */
export interface KernelListener {
  /** Gets each kernel that an operation or an operation's own code calls, but no kernel that another kernel calls. */
  kernel(name: string, inputs: object, attrs: object | undefined, outputs: tf.Tensor | tf.Tensor[]): void;
  /** Runs an operation that has a gradient of its own (tf.customGrad). */
  customGradient(run: () => unknown): unknown;
}

/** Reports the operations of tfjs's engine. The returned function ends the reports. */
export function listenToKernels(listener: KernelListener): () => void {
  let depth = 0;
  const ends = [
    replaceEngineFunction('runKernel', (run) => (name: string, inputs: object, attrs?: object) => {
      depth++;
      let outputs: tf.Tensor | tf.Tensor[];
      try {
        outputs = run(name, inputs, attrs) as tf.Tensor | tf.Tensor[]; // tfjs's kernels return tensors
      } finally {
        depth--;
      }
      if (depth === 0) listener.kernel(name, inputs, attrs, outputs);
      return outputs;
    }),
    replaceEngineFunction(
      'runKernelFunc',
      (run) => (call: { readonly forwardFunc?: unknown }) =>
        call.forwardFunc === undefined || depth > 0 ? run(call) : listener.customGradient(() => run(call)),
    ),
  ];
  return () => {
    for (const end of ends) end();
  };
}

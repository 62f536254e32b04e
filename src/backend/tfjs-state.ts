import * as tf from '../core/tf';

/** The state of tfjs's engine: tapes, scopes and kernels in progress. */
export type TfjsState = ReturnType<typeof tf.engine>['state'];

/** A recorded operation. */
export type TapeNode = TfjsState['activeTape'][number];

/** The state of tfjs's one engine. */
export function tfjsState(): TfjsState {
  return tf.engine().state;
}

/**
 * Runs `work` outside all tidy scopes and tapes: tensors made in it live until they are disposed, and no gradient
 * flows through it. Tidy scopes opened inside work as usual.
 */
export function untracked<T>(work: () => T): T {
  const state = tfjsState();
  const { activeScope, gradientDepth, kernelDepth } = state;
  const depth = state.scopeStack.length;
  tf.engine().startScope('untracked');
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

/** Ends all open tidy scopes, tapes and kernels, and disposes the scopes' tensors unless `spare` says otherwise. */
export function unwindTfjs(spare: (tensor: tf.Tensor) => boolean): void {
  const state = tfjsState();
  const scopes = state.scopeStack;
  state.scopeStack = [];
  // tfjs types these as always set, but starts and ends with null.
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
 * Replaces a function of tfjs's engine. The returned function puts the earlier one back, unless another replaced this
 * one since.
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

/** Gives a kernel's outputs without running it, or undefined to let it run. */
type KernelStandIn = (
  kernelName: string,
  inputs: tf.NamedTensorMap,
  attrs: tf.NamedAttrMap | undefined,
) => tf.Tensor | tf.Tensor[] | undefined;

/**
 * From now on offers kernels that operations call (not those that other kernels call) to a stand-in. The returned
 * function ends this.
 */
export function interceptKernels(standIn: KernelStandIn): () => void {
  return replaceEngineFunction('runKernel', (run) => (...call: Parameters<KernelStandIn>) => {
    const outputs = tfjsState().kernelDepth === 0 ? standIn(...call) : undefined;
    return outputs ?? run(...call);
  });
}

/**
 * From now on reports every buffer whose values are read by dataSync(), data() and similar functions. The returned
 * function ends the reports.
 */
export function watchHostReads(told: (dataId: object) => void): () => void {
  const ends = (['readSync', 'read'] as const).map((name) =>
    replaceEngineFunction(name, (read) => (dataId: object) => {
      told(dataId);
      return read(dataId);
    }),
  );
  return () => {
    for (const end of ends) end();
  };
}

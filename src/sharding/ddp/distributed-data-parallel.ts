import { type CommHookInput, countSchema, flagSchema, PARALLEL, type ShapeOf } from '../../config';
import type { HalfDType } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine, UnitHooks } from '../../engine';
import { contentsOfOne, Module, type Parameter, wholeTensor } from '../../nn';
import type { DeviceMesh, ProcessGroup } from '../../wire';
import { broadcastBuffers, roundBuffers } from '../buffers';
import { withoutSpare } from '../missing-gradients';
import { MESH_VALUE, POLICY, WRAP_POLICY } from '../option-values';
import { castBoundaries } from '../precision/cast-boundaries';
import { FULL_PRECISION, halfOf, type MixedPrecision } from '../precision/mixed-precision';
import { RoundedParameters } from '../precision/rounded-parameters';
import { type RankContext, runAsUnit } from '../run-as-unit';
import { heldParameters, replicasOf, requireSameParts } from '../same-parts';
import { rowTables } from '../sparse/row-masks';
import { blockWrapPolicy, modulesToWrap, type WrapPolicy } from '../wrap-policy';
import type { CommHook } from './comm-hooks';
import { PowerSGDState, powerSGDHook } from './power-sgd';
import { type BucketSizes, DEFAULT_BUCKET_SIZES, Reducer } from './reducer';
import { TopKState, topKHook } from './top-k';

/** Options of `DDP`. */
export interface DdpOptions extends Partial<BucketSizes> {
  /**
   * Chooses modules whose gradients may be reduced when the module's own backward ends; all other gradients wait until the
   * model's backward ends. Default: items of ModuleLists.
   */
  readonly policy?: WrapPolicy;
  /** The dtypes of forward, backward and sent gradients; parameters and optimizer states are always float32. */
  readonly precision?: MixedPrecision | undefined;
  /** Copies rank 0's buffers to all ranks before each forward that follows a reduction. Default true. */
  readonly broadcastBuffers?: boolean | undefined;
  /** Sends the gradients of embedding rows and experts only if a rank used them. Source: DeepSpeed's sparse_gradients. */
  readonly sparseGradients?: boolean | undefined;
  /**
   * Compresses gradients: `{ kind: 'powerSGD', matrixApproximationRank: 2 }` or `{ kind: 'topK', ratio: 0.01 }`. `dispose` of
   * the DDP frees the hook's state.
   */
  readonly commHook?: CommHookInput | null | undefined;
}

/**
 * Averages the gradients of a model over ranks during backward; every rank has the whole model. At the start, rank 0
 * broadcasts its parameters and buffers. A call of the wrapper and a call of the model itself (`module`) have the same effect, but
 * a model in eval mode that is called itself sends nothing, so one rank alone may call it.
 * Source: torch.nn.parallel.DistributedDataParallel.
 */
export class DDP<M extends Module = Module> extends Module {
  /**
   * The values of the options that a cell may give.
   * @internal
   */
  static readonly values = {
    bucketBytes: countSchema,
    firstBucketBytes: countSchema,
    policy: WRAP_POLICY,
    precision: POLICY,
    broadcastBuffers: flagSchema,
    sparseGradients: flagSchema,
    commHook: PARALLEL.commHook.schema.describe(PARALLEL.commHook.form),
    mesh: MESH_VALUE,
  } satisfies ShapeOf<DdpOptions & { readonly mesh?: DeviceMesh | undefined }>;

  readonly module: M;
  readonly #engine: Engine;
  readonly #group: ProcessGroup;
  readonly #precision: MixedPrecision;
  readonly #reducer: Reducer;
  /** The parameters that were trainable when the wrapper was made; they may be frozen and unfrozen later. */
  readonly #trained: readonly Parameter[];
  /** The rounded parameters of each unit. */
  readonly #copies: RoundedParameters[] = [];
  #hookState: PowerSGDState | TopKState | null = null;
  readonly #syncsBuffers: boolean;
  #hasReduced = true;
  /** Whether the wrapper itself is called, not only its module. */
  #isCalled = false;
  /** The modules with `isOptional` that ran in this pass. */
  readonly #ran = new Set<Module>();

  constructor(module: M, context: RankContext, options: DdpOptions = {}) {
    super();
    const { engine, group } = context;
    this.module = this.addInner(module);
    this.#engine = engine;
    this.#precision = options.precision ?? FULL_PRECISION;
    const parameters = heldParameters(module.parameters());
    requireSameParts(parameters, group, 'DDP');
    this.#broadcastParameters(parameters, context);
    this.#group = group;
    this.#syncsBuffers = options.broadcastBuffers ?? true;
    roundBuffers(module, this.#precision);
    broadcastBuffers(module.buffers(), group);
    const { reduceDtype, keepLowPrecisionGrads } = this.#precision;
    this.#trained = parameters.filter((parameter) => parameter.requiresGrad);
    this.#reducer = new Reducer({
      engine,
      group,
      parameters: this.#trained,
      sizes: { ...DEFAULT_BUCKET_SIZES, ...options },
      wireDType: reduceDtype,
      declared: keepLowPrecisionGrads ? (halfOf(reduceDtype) ?? undefined) : undefined,
      tables: options.sparseGradients === true ? rowTables(module) : [],
    });
    this.#registerHook(options.commHook ?? null);
    this.#hook(context, options.policy ?? blockWrapPolicy(module));
  }

  forward(...inputs: Parameters<M['forward']>): ReturnType<M['forward']> {
    this.#isCalled = true;
    try {
      return this.module.apply(...inputs);
    } finally {
      this.#isCalled = false;
    }
  }

  /** The buckets, in the order of their reduction. */
  get buckets(): readonly (readonly Parameter[])[] {
    return this.#reducer.buckets;
  }

  /** Runs `work` without reductions: local gradients add up, and the next backward after `work` reduces the sums. */
  noSync<T>(work: () => T): T {
    return this.#reducer.noSync(work);
  }

  /**
   * Sets the hook that starts the reduction of every bucket; sparse gradients are reduced without it.
   * Throws: CONFIG if there is already a hook, or if a setting chooses the dtype in which gradients are sent.
   * Source: torch's DistributedDataParallel.register_comm_hook.
   */
  registerCommHook<S>(state: S, hook: CommHook<S>): void {
    this.#reducer.useHook((bucket) => hook(state, bucket));
  }

  /** Frees the model, and the state of the hook that the option `commHook` chose. */
  override dispose(): void {
    super.dispose();
    this.#hookState?.dispose();
  }

  /** Frees an interrupted backward's gradients and rounded parameters; the parameters themselves do not change. */
  abandon(): void {
    for (const copies of this.#copies) copies.leave();
    this.#reducer.abandon();
  }

  /** Copies the parameters of each group's rank 0 to all its ranks. Throws: COLLECTIVE_MISMATCH if ranks have other parameters. */
  #broadcastParameters(parameters: readonly Parameter[], { engine, group }: RankContext): void {
    const sent = new Map<ProcessGroup, Parameter[]>();
    for (const parameter of parameters) {
      const replicas = replicasOf(parameter, group);
      const all = sent.get(replicas) ?? [];
      all.push(parameter);
      sent.set(replicas, all);
    }
    for (const parameter of parameters) {
      const tensor = wholeTensor(engine, parameter);
      const replicas = replicasOf(parameter, group);
      const all = sent.get(replicas) ?? [];
      const contents = contentsOfOne(all, all.indexOf(parameter));
      if (replicas.size > 1)
        replicas.broadcast(tensor, 0, { cause: 'param', module: parameter.module, contents }).wait();
    }
  }

  #registerHook(hook: CommHookInput | null): void {
    if (hook?.kind === 'powerSGD') {
      const state = new PowerSGDState(hook);
      this.#hookState = state;
      this.registerCommHook(state, powerSGDHook);
    } else if (hook?.kind === 'topK') {
      const state = new TopKState(hook);
      this.#hookState = state;
      this.registerCommHook(state, topKHook);
    }
  }

  #hook(context: RankContext, policy: WrapPolicy): void {
    const taken = new Set<Parameter>();
    for (const module of [...modulesToWrap(this.module, policy), this.module]) {
      const free = heldParameters(module.parameters()).filter((parameter) => !taken.has(parameter));
      for (const parameter of free) taken.add(parameter);
      const trained = free.filter(({ requiresGrad }) => requiresGrad);
      // Frozen parameters have no gradient, but they are rounded together with the trainable parameters.
      const parameters = [...trained, ...free.filter(({ requiresGrad }) => !requiresGrad)];
      const declared = halfOf(this.#precision.paramDtype) ?? undefined;
      const outputDtype = module === this.module ? this.#precision.outputDtype : null;
      castBoundaries(this.#engine, module, { ...this.#precision, outputDtype });
      const hooks = this.#hooks(module, parameters, trained);
      const equal = trained.filter((parameter) => replicasOf(parameter, this.#group) === this.#group);
      const replicas = { parameters: equal, ranks: () => (this.#reducer.syncs ? this.#group.ranks : null) };
      runAsUnit({ ...context, module, parameters, numTrained: trained.length, hooks, declared, replicas });
    }
  }

  #hooks(module: Module, parameters: readonly Parameter[], trained: readonly Parameter[]): UnitHooks {
    const isRoot = module === this.module;
    const half = halfOf(this.#precision.paramDtype);
    const copies = half === null ? null : new RoundedParameters(this.#engine, parameters, half);
    if (copies !== null) this.#copies.push(copies);
    return {
      preForward: (phase) => {
        if (isRoot && phase === 'forward') this.#begin();
        if (module.isOptional) this.#ran.add(module);
        copies?.enter();
      },
      postForward: () => copies?.leave(),
      preBackward: () => {
        if (isRoot) this.#reducer.leaveOut(this.#leftOut());
        copies?.enter();
      },
      postBackward: (grads) => {
        copies?.leave();
        const used = withoutSpare(trained, grads);
        trained.forEach((parameter, i) => {
          this.#reducer.add(parameter, this.#rounded(used[i] ?? null, half));
        });
        if (isRoot) this.#reducer.finish();
      },
    };
  }

  /** Resets the state that an aborted pass left, before a forward. */
  #begin(): void {
    this.#ran.clear();
    for (const copies of this.#copies) copies.leave();
    if (this.#isCalled || this.module.training) this.#syncBuffers();
    this.#reducer.begin();
  }

  /** Copies buffers, except between the microbatches of one step. Source: torch's require_forward_param_sync. */
  #syncBuffers(): void {
    if (this.#syncsBuffers && this.#hasReduced) broadcastBuffers(this.module.buffers(), this.#group);
    this.#hasReduced = this.#reducer.syncs;
  }

  /** Returns the parameters of modules with `isOptional` that did not run, and the parameters that are frozen now. */
  #leftOut(): Parameter[] {
    const idle = this.module.modules().filter((module) => module.isOptional && !this.#ran.has(module));
    const frozen = this.#trained.filter(({ requiresGrad }) => !requiresGrad);
    return [...idle.flatMap((module) => module.parameters()), ...frozen];
  }

  #rounded(grad: tf.Tensor | null, half: HalfDType | null): tf.Tensor | null {
    if (grad !== null && half !== null) this.#engine.round(grad, half);
    return grad;
  }
}

import { ConfigError, type MemoryCause, tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import { beginPass } from '../backend/current-engine';
import type { Engine } from '../backend/engine';
import { type TfjsState, tfjsState, UNTRACKED, untracked } from '../backend/tfjs-state';
import { dividedBy, layerName } from './divided';
import { dropDead, markOutputs, reachedFrom, releaseUnusable } from './eager-nodes';
import { isTrainedParameter } from './leaves';
import { lostError, lostPathOf } from './lost-path';
import { type Gradients, type RecordedNode, Recording, requireUnchanged } from './recording';
import { runRegion } from './region';
import { dependsOnNothing, scalar } from './results';
import { backward, ownResults, tidy } from './tape';
import { handOut, type TrainedParts } from './unit';

/** Functions that are called in an eager pass, before, around or after its parts. */
export interface EagerHooks {
  /** Is called before the first forward of a pass. */
  begins(): void;
  /** Runs the forward of an outermost module. */
  forward<T>(work: () => T): T;
  /** Runs the backward of a loss. */
  backward(loss: tf.Tensor, work: () => void): void;
  trained(parts: TrainedParts): void;
  /** Receives warnings, such as a warning about activations that are never freed. */
  warn(message: string): void;
  /** Returns the cell and line of the running code, for messages. Default: unknown. */
  place?(): string;
}

/** The memory causes of tensors that the operations of a pass make. */
const PASSING: ReadonlySet<MemoryCause> = new Set(['activation', 'temp']);

/** A module, and the outermost module that contains it. */
interface Part {
  readonly root: object;
}

/** A module in evaluation mode, and its parameters. */
interface EvaluatedPart {
  readonly path: string;
  parameters(): readonly { readonly requiresGrad: boolean }[];
}

/** The caller is checked for at most this number of calls of inner modules. */
const MOST_CALLERS = 20;

/** A warning appears when modules were called this many times without backward. */
const MANY_CALLS = 200;

/**
 * Records what a cell computes outside of `gradients`, so that `loss.backward()` works as in torch.
 *
 * [Note: eager recording] The first operation of a cell that reads a trained parameter, or the first call of a module, opens a
 * recording, which tfjs then uses as its tape, also for all later operations of the cell. `loss.backward()` takes the operations
 * on which the loss depends out of the recording, runs backward through them and releases them, as torch frees the graph of a
 * loss. All others stay, because another loss may depend on them (the generator's forward during the discriminator's step). An
 * operation is released without a backward when none can reach it: all results that depend on it are disposed, or depend on what
 * a backward has released, or a parameter that it saved has changed; and at the end of the cell. Results that are left
 * are marked, and a loss that depends on them is refused: [Note: lost paths].
 *
 * A module in evaluation mode stores only its inputs; if a backward reaches it, its forward runs again ([Note: checkpointed
 * regions]). So an evaluation stores no activations, and an encoder in evaluation mode trains as in torch.
 *
 * Tensors that a module makes in its forward are disposed as usual; tensors that the cell itself makes (logits, the loss)
 * belong to the cell. Tensors of the cell that still exist when the cell ends or a later pass begins get a tag with part 'left',
 * so that ledgers do not show them as activations.
 */
export class EagerTape {
  /** Whether operations are recorded; false while the rank does other work than a cell's or a function's. */
  isActive = true;
  readonly #engine: Engine;
  readonly #hooks: EagerHooks;
  #tape: Recording | null = null;
  /** The tensors that the cell itself made in operations that are no longer recorded. */
  #results: tf.Tensor[] = [];
  #forget: () => void = () => undefined;
  /** The operations of the recording while a backward runs. */
  #inBackward: readonly RecordedNode[] = [];
  #isInModule = false;
  /** Whether a module in training mode ran since the last backward. */
  #hasBegun = false;
  #numCalls = 0;
  #hasWarned = false;
  #hasWarnedOfData = false;
  #hasWarnedOfPart = false;
  #numCallers = 0;

  constructor(engine: Engine, hooks: EagerHooks) {
    this.#engine = engine;
    this.#hooks = hooks;
  }

  /** Runs the forward of a module in training mode; opens a recording unless some tape, kernel or hook is active. */
  run<T>(module: Part, work: () => T): T {
    if (!this.canRecord) return work();
    this.#checkCaller(module);
    const tape = this.#current();
    if (!this.#hasBegun) this.#begin(tape);
    this.#isInModule = true;
    this.#countCall();
    try {
      return this.#hooks.forward(() => tidy(() => ownResults(tape, work())));
    } catch (error) {
      this.close('error');
      throw error;
    } finally {
      this.#isInModule = false;
    }
  }

  /**
   * Runs the forward of a module in evaluation mode. It stores only the inputs, unless it is part of a training pass, such as
   * a fixed network that judges the output of a network in training.
   */
  evaluate<Inputs extends readonly unknown[], Result>(
    module: EvaluatedPart,
    forward: (...inputs: Inputs) => Result,
    inputs: Inputs,
  ): Result {
    const tape = this.#tape;
    const tensors = tensorsIn(inputs);
    const isFlowing = tape !== null && tensors.some((input) => tape.flows(input));
    if (isFlowing && this.#hasBegun) return forward(...inputs);
    const isLost = tensors.some((input) => lostPathOf(input) !== undefined);
    const trains = module.parameters().some(({ requiresGrad }) => requiresGrad);
    if (!(isFlowing || isLost || trains)) return forward(...inputs);
    this.#current();
    this.#isInModule = true;
    try {
      return runRegion(this.#engine, { module: module.path, ownsInputs: false }, forward, inputs);
    } finally {
      this.#isInModule = false;
    }
  }

  /**
   * Opens a recording before an operation of a cell that reads a trained parameter, or a tensor with a lost path. Is called
   * before each operation that is not inside a kernel.
   */
  beforeOperation(inputs: tf.NamedTensorMap): void {
    const { activeTape, gradientDepth, scopeStack } = tfjsState();
    if (!this.isActive || this.#isInModule) return;
    if (gradientDepth > 0 && activeTape instanceof Recording) {
      if (activeTape === this.#tape) dropDead(activeTape);
      return;
    }
    const isNoted = Object.values(inputs).some(
      (input) => input != null && (isTrainedParameter(input) || lostPathOf(input) !== undefined),
    );
    if (!isNoted || scopeStack.some(({ name }) => name === UNTRACKED)) return;
    if (gradientDepth === 0) this.#open();
    else this.#adopt(gradientDepth, activeTape);
  }

  /**
   * Runs the backward of a loss. Throws: CONFIG if what the loss depends on is not recorded any more, or a parameter has
   * changed since forward; ENGINE if the loss uses a unit's parameter outside of the unit; SHAPE unless it is a float32 scalar.
   */
  backward(loss: tf.Tensor, seed = 1): void {
    const lost = lostPathOf(loss);
    if (lost !== undefined) throw lostError(lost);
    const tape = this.#tape;
    if (tape === null || tfjsState().activeTape !== tape) throw notRecorded();
    scalar(loss);
    if (!tape.flows(loss)) throw dependsOnNothing();
    const { reached, rest, ids } = reachedFrom(loss.id, tape);
    requireUnchanged(reached);
    this.readAsLoss(loss);
    const end = { reason: 'backward', place: this.#place() } as const;
    this.#leave();
    tape.setAside(reached, rest);
    this.#inBackward = [...reached, ...rest];
    try {
      this.#hooks.backward(loss, () => {
        const seeds: Gradients = new Map([[loss.id, untracked(() => tf.fill(loss.shape, seed))]]);
        handOut(this.#engine, tape, backward(this.#engine, tape, seeds));
      });
    } catch (error) {
      this.#lose(tape, 'error');
      throw error;
    }
    this.#inBackward = [];
    for (const node of reached) markOutputs(node, end);
    tape.forgetOutputs(reached);
    const { usable, released } = releaseUnusable(tape.takeAside(), { nodes: reached, end });
    this.#noteResults(reached);
    this.#noteResults(released);
    this.#hasBegun = false;
    if (usable.length > 0) this.#enter(tape, usable);
    else this.#end(tape);
    const units = new Set(reached.flatMap((node) => node.units ?? []));
    const loose = [...tape.loose].flatMap(([id, leaf]) => (ids.has(id) ? leaf : []));
    this.#hooks.trained({ loose: [...new Set(loose)], units: [...units] });
  }

  /**
   * Warns once if the tensor, which `gradients` reads as data, was computed from trained parameters outside of `gradients`.
   */
  readAsData(input: tf.Tensor): void {
    if (this.#hasWarnedOfData) return;
    const isRecorded = this.#tape?.flows(input) === true;
    if (!isRecorded && lostPathOf(input) === undefined) return;
    this.#hasWarnedOfData = true;
    this.#hooks.warn(
      `the loss in gradients() reads a tensor (${input.dtype} [${input.shape.join(', ')}]) that was computed from trained parameters outside of gradients(), ` +
        'so it counts as data, and these parameters get no gradient from this loss. Compute it inside gradients(() => …); if it is ' +
        'meant as data, write x.detach(). This warning appears once',
    );
  }

  /**
   * Warns once if a loss is computed from the part of a tensor that this rank has, because then each rank has another loss. Source:
   * the gradients are those of torch's ColwiseParallel, whose output is by default a rank's own tensor.
   */
  readAsLoss(loss: tf.Tensor): void {
    const divided = dividedBy(loss);
    if (divided === undefined || this.#hasWarnedOfPart) return;
    this.#hasWarnedOfPart = true;
    this.#hooks.warn(
      `tensor parallelism: the loss is computed from the part of a tensor that this rank has, from ${layerName(divided.of)}, so each rank has ` +
        "another loss, and the gradients are those of the sum of all ranks' losses. For a mean, collect the parts before the loss: " +
        'outputLayouts: Replicate(), a RowwiseParallel layer, or gatherFromTensorParallelRegion(y, parallel.tp). This warning appears once',
    );
  }

  /** Releases all that is recorded; backward from its results is then not possible. */
  close(reason: 'cell' | 'error' = 'cell'): void {
    if (this.#tape !== null) this.#lose(this.#tape, reason);
    this.#tagResults();
  }

  /** Whether the running code is a cell's, outside of modules, other tapes, kernels and hooks. */
  get canRecord(): boolean {
    if (!this.isActive || this.#isInModule) return false;
    const { gradientDepth, kernelDepth, activeTape, scopeStack } = tfjsState();
    const isIdle =
      gradientDepth === 0 && kernelDepth === 0 && scopeStack.every(({ name }) => name !== UNTRACKED);
    const isOpen =
      this.#tape !== null && activeTape === this.#tape && gradientDepth === 1 && kernelDepth === 0;
    return isIdle || isOpen;
  }

  /** Returns the open recording, without operations at its end whose results are all disposed; opens one if there is none. */
  #current(): Recording {
    const tape = this.#tape;
    if (tape === null) return this.#open();
    dropDead(tape);
    if (tape.length === 0) this.#hasBegun = false;
    tape.scopeDepth = Math.min(tape.scopeDepth, tfjsState().scopeStack.length);
    return tape;
  }

  #begin(tape: Recording): void {
    const { usable, released } = releaseUnusable([...tape]);
    this.#noteResults(released);
    tape.setAside(usable, []);
    this.#tagResults();
    this.#hasBegun = true;
    this.#numCalls = 0;
    this.#hooks.begins();
    beginPass();
  }

  #place(): string {
    const place = this.#hooks.place?.() ?? '';
    return place === '' ? '' : ` (${place})`;
  }

  #noteResults(nodes: readonly RecordedNode[]): void {
    for (const { outputs } of nodes)
      for (const output of outputs) if (!output.isDisposed) this.#results.push(output);
  }

  #tagResults(): void {
    for (const result of this.#results.splice(0)) this.#tagLeft(result);
  }

  #tagLeft(result: tf.Tensor): void {
    // A view's buffer may have another owner, such as a parameter; its cause then is not in `PASSING`.
    if (result.isDisposed || !PASSING.has(this.#engine.tagOf(result).cause)) return;
    this.#engine.retag(result, { cause: 'temp', module: '', part: 'left' });
  }

  /**
   * Warns once if code calls `forward` of a model directly. The call is noticed when this forward calls
   * `module`, which is inside the model.
   */
  #checkCaller(module: Part): void {
    const { root } = module;
    if (module === root || this.#numCallers >= MOST_CALLERS) return;
    this.#numCallers++;
    const frames = new Error().stack?.split('\n') ?? [];
    const forward = frames.findLastIndex((frame) => frame.includes('.forward ('));
    // If the model itself is called, Callable.#forward runs its forward.
    if (forward === -1 || frames[forward + 1]?.includes('#forward (') === true) return;
    this.#numCallers = MOST_CALLERS;
    this.#hooks.warn(
      `the forward of ${root.constructor.name} was called as model.forward(x). So its tensors are not freed, and the wrappers of the model ` +
        '(FSDP, DDP, checkpointing) do not run. Write model(x). This warning appears once',
    );
  }

  #countCall(): void {
    this.#numCalls++;
    if (this.#numCalls < MANY_CALLS || this.#hasWarned) return;
    this.#hasWarned = true;
    this.#hooks.warn(
      `modules in training mode were called ${MANY_CALLS} times in this cell without backward, and their activations are stored for ` +
        'backward. To compute without backward, call model.eval() first, or dispose the results (tf.tidy). This warning appears once',
    );
  }

  #open(): Recording {
    const tape = new Recording(this.#engine, null, new Map(), null, 'eager');
    this.#enter(tape, []);
    tape.scopeDepth = tfjsState().scopeStack.length;
    this.#hasBegun = false;
    this.#forget();
    this.#forget = this.#engine.onRecover(() => {
      this.#isInModule = false;
      this.#lose(tape, 'error');
    });
    return tape;
  }

  /** Releases all that is recorded, and marks the results. */
  #lose(tape: Recording, reason: 'cell' | 'error'): void {
    const nodes = new Set([...tape, ...this.#inBackward]);
    this.#inBackward = [];
    for (const node of nodes) markOutputs(node, { reason, place: '' });
    this.#noteResults([...nodes]);
    this.#hasBegun = false;
    this.#leave();
    this.#end(tape);
  }

  /**
   * Continues a tape of tf.grad (or a similar function) that a cell called outside of a recording, at the first operation that
   * reads a trained parameter. So a loss of tf.grad's result, such as a gradient penalty, has a gradient.
   */
  #adopt(depth: number, recorded: readonly RecordedNode[]): void {
    const before = [...recorded];
    const tape = this.#open();
    tfjsState().gradientDepth = depth + 1;
    tape.push(...before);
  }

  /** Makes tfjs use the tape with these operations. */
  #enter(tape: Recording, nodes: readonly RecordedNode[]): void {
    tape.restore(nodes);
    Object.assign(tfjsState(), { activeTape: tape, gradientDepth: 1 });
    this.#tape = tape;
  }

  /** Makes tfjs stop using the tape. After an interrupt, tfjs has already stopped. */
  #leave(): void {
    const state = tfjsState();
    // tfjs itself sets null, which its types do not allow.
    if (state.activeTape === this.#tape) Object.assign(state, { activeTape: null, gradientDepth: 0 });
    this.#tape = null;
  }

  #end(tape: Recording): void {
    this.#leave();
    tape.release();
    this.#forget();
    this.#forget = () => undefined;
  }
}

const EAGER = Symbol('the eager tape of a tfjs backend');

interface Marked {
  [EAGER]?: EagerTape;
}

/** Returns the eager tape of tfjs's current backend; null outside of ranks, where nothing is recorded automatically. */
export function currentEagerTape(): EagerTape | null {
  return (tf.backend() as Marked)[EAGER] ?? null;
}

/** Lets modules on tfjs's current backend record, and gives tensors the method `backward`. */
export function recordEagerly(tape: EagerTape): void {
  (tf.backend() as Marked)[EAGER] = tape;
  watchOperations();
  tf.Tensor.prototype.backward = function (this: tf.Tensor, seed?: number) {
    const current = currentEagerTape();
    if (current === null) throw notRecorded();
    current.backward(this, seed);
  };
}

function notRecorded(): ConfigError {
  return new ConfigError(
    'loss.backward(): no forward is recorded for this loss. Call the model (in training mode) and compute the loss in the same ' +
      'cell, and run backward once; or write const pass = gradients(() => loss) with the forward inside, then pass.backward()',
  );
}

/** The function of tfjs's engine that runs each operation, also those of tf.customGrad. */
interface RunsOperations {
  runKernelFunc(operation: { readonly inputs: tf.NamedTensorMap }): unknown;
}

/** Calls the current eager tape before each operation of tfjs. A process does this once. */
function watchOperations(): void {
  const engine = tf.engine() as unknown as RunsOperations & Marked;
  if (Object.hasOwn(engine, 'runKernelFunc')) return;
  const run = engine.runKernelFunc;
  const state: () => TfjsState = tfjsState;
  engine.runKernelFunc = function (this: RunsOperations, operation) {
    if (state().kernelDepth === 0) currentEagerTape()?.beforeOperation(operation.inputs);
    return Reflect.apply(run, this, [operation]);
  };
}

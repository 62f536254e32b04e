import { beginPass } from '../backend/current-engine';
import type { Engine } from '../backend/engine';
import { tfjsState, UNTRACKED, untracked } from '../backend/tfjs-state';
import { ConfigError, ShardlabError } from '../core/errors';
import type { MemoryCause } from '../core/events';
import * as tf from '../core/tf';
import { type Gradients, Recording } from './recording';
import { dependsOnNothing, scalar } from './results';
import { backward, ownResults, tidy } from './tape';
import { handOut, type TrainedParts, trainedParts } from './unit';

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
}

/** The memory causes of tensors that the operations of a pass make. */
const PASSING: ReadonlySet<MemoryCause> = new Set(['activation', 'temp']);

/** A module, and the outermost module that contains it. */
interface Part {
  readonly root: object;
}

/** The caller is checked for at most this number of calls of inner modules. */
const MOST_CALLERS = 20;

/** A warning appears when modules were called this many times without backward. */
const MANY_CALLS = 200;

/**
 * Records what a cell computes outside of `gradients`, so that `loss.backward()` works as in torch.
 *
 * [Note: eager recording] The first call of a module in training mode opens a recording, which tfjs then uses as its tape,
 * also for the operations on the module's results. `loss.backward()` closes the recording and runs backward. The end of the
 * cell closes the recording without backward. The next call of a module also closes it if all results so far are disposed,
 * because no loss can then depend on them. Tensors that a module makes in its forward are disposed as usual; tensors that the
 * cell itself makes (logits, the loss) belong to the cell. Tensors of the cell that still exist when the cell ends or a later
 * pass begins get a tag with part 'left', so that ledgers do not show them as activations. A module in evaluation mode opens no
 * recording.
 */
export class EagerTape {
  readonly #engine: Engine;
  readonly #hooks: EagerHooks;
  #tape: Recording | null = null;
  /** The tensors that the cell itself made in recordings that have ended. */
  #results: tf.Tensor[] = [];
  #forget: () => void = () => undefined;
  #isInModule = false;
  #numCalls = 0;
  #hasWarned = false;
  #numCallers = 0;

  constructor(engine: Engine, hooks: EagerHooks) {
    this.#engine = engine;
    this.#hooks = hooks;
  }

  /** Runs a module's forward; opens a recording unless some tape, kernel or hook is active. */
  run<T>(module: Part, work: () => T): T {
    const { gradientDepth, kernelDepth, activeTape, scopeStack } = tfjsState();
    const isIdle =
      gradientDepth === 0 && kernelDepth === 0 && scopeStack.every(({ name }) => name !== UNTRACKED);
    const isOpen =
      this.#tape !== null && activeTape === this.#tape && gradientDepth === 1 && kernelDepth === 0;
    if (this.#isInModule || !(isIdle || isOpen)) return work();
    this.#checkCaller(module);
    const tape = isOpen && this.#tape !== null && isAlive(this.#tape) ? this.#tape : this.#open();
    this.#isInModule = true;
    this.#countCall();
    try {
      return this.#hooks.forward(() => tidy(() => ownResults(tape, work())));
    } catch (error) {
      this.close();
      throw error;
    } finally {
      this.#isInModule = false;
    }
  }

  /** Runs the backward of a loss that was computed since the recording was opened. Throws: CONFIG, SHAPE. */
  backward(loss: tf.Tensor, seed = 1): void {
    const tape = this.#tape;
    if (tape === null || tfjsState().activeTape !== tape) throw notRecorded();
    const owner = tape.lostIn(loss);
    if (owner !== undefined) throw usedOutside(owner);
    scalar(loss);
    if (!tape.flows(loss)) throw dependsOnNothing();
    this.#leave();
    try {
      this.#hooks.backward(loss, () => {
        const seeds: Gradients = new Map([[loss.id, untracked(() => tf.fill(loss.shape, seed))]]);
        handOut(this.#engine, tape, backward(this.#engine, tape, seeds));
      });
    } finally {
      tape.release();
    }
    this.#hooks.trained(trainedParts(tape));
  }

  /** Releases an open recording; backward from its losses is then not possible. */
  close(): void {
    const tape = this.#tape;
    if (tape !== null) {
      this.#leave();
      tape.release();
    }
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
    this.close();
    this.#hooks.begins();
    beginPass();
    const tape = new Recording(this.#engine, null, new Map(), null, 'eager');
    const state = tfjsState();
    Object.assign(state, { activeTape: tape, gradientDepth: 1 });
    tape.scopeDepth = state.scopeStack.length;
    this.#tape = tape;
    this.#numCalls = 0;
    this.#forget = this.#engine.onRecover(() => {
      this.#tape = null;
      this.#isInModule = false;
      tape.release();
    });
    return tape;
  }

  /** Makes tfjs stop using the tape. After an interrupt, tfjs has already stopped. */
  #leave(): void {
    for (const { outputs } of this.#tape ?? []) {
      for (const output of outputs) if (!output.isDisposed) this.#results.push(output);
    }
    const state = tfjsState();
    // tfjs itself sets null, which its types do not allow.
    if (state.activeTape === this.#tape) Object.assign(state, { activeTape: null, gradientDepth: 0 });
    this.#tape = null;
    this.#forget();
  }
}

/** Whether at least one result of the tape's operations is not disposed. */
function isAlive(tape: Recording): boolean {
  for (let i = tape.length - 1; i >= 0; i--) {
    if (tape[i]?.outputs.some((output) => !output.isDisposed) === true) return true;
  }
  return false;
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

function usedOutside(owner: string): ShardlabError {
  return new ShardlabError(
    'ENGINE',
    `The loss uses a parameter of unit '${owner}' outside of this unit, so its gradient would be lost. Use the parameter in the forward of ` +
      'the unit, or make it a parameter of a unit around all uses of the parameter.',
  );
}

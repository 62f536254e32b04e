import type { Engine } from '../backend/engine';
import { untracked } from '../backend/tfjs-state';
import type { HalfDType } from '../core/dtypes';
import { ConfigError, classOf, ShardlabError } from '../core/errors';
import * as tf from '../core/tf';
import { accumulateGrad, type Leaf } from './leaves';
import { ParameterSet } from './parameter-set';
import { currentRecording, type Gradients, type RecordedNode, Recording } from './recording';
import { backward, isSoleOwner, ownResult, record } from './tape';

/** 'forward': the first forward; 'recompute': the second forward of a checkpointed region, directly before its backward. */
export type ForwardPhase = 'forward' | 'recompute';

/**
 * Functions that are called before and after a unit's forward and backward. Hooks run outside all tapes and tidy scopes,
 * so a hook must dispose the tensors that it makes.
 */
export interface UnitHooks {
  /** Makes the parameters whole. */
  preForward(phase: ForwardPhase): void;
  /** May free the parameters. */
  postForward(phase: ForwardPhase): void;
  /** Makes the parameters whole again, in the same or in new tensors. */
  preBackward(): void;
  /** Takes ownership of the gradients, one per parameter; null if the unit's output does not depend on the parameter. */
  postBackward(gradients: readonly (tf.Tensor | null)[]): void;
}

/** A part of a model whose parameters are gathered and freed together. */
export interface Unit {
  readonly hooks: UnitHooks;
  /** Returns the current tensors of the parameters. A parameter always has the same index, but its tensor may change. */
  readonly parameters: () => readonly tf.Tensor[];
  /** The number of parameters that have gradients; they come first, the others are frozen. Default: all. */
  readonly numTrained?: number | undefined;
  /** The module's full name, for tags. */
  readonly module: string;
  /** The dtype in which a GPU would compute the unit, for tags. */
  readonly declared?: HalfDType | undefined;
}

/** A finished forward whose backward can run once. */
export interface Pass {
  /** The loss; the caller owns the tensor. */
  readonly loss: tf.Tensor;
  /**
   * Runs backward; `seed` (default 1) is the gradient of the loss. Each unit's hook gets the unit's gradients as soon as its
   * backward has run. At the end, gradients of loose parameters are added to their `grad`, without a reduction over ranks.
   * Throws: CONFIG on a second call, and if the loss depends on no trainable parameter.
   */
  backward(seed?: number): void;
  /** Releases the tensors that forward saved, without backward. */
  dispose(): void;
}

/** The loose parameters that a pass used, and the names of the units that ran in it. */
export interface TrainedParts {
  readonly loose: readonly Leaf[];
  readonly units: readonly string[];
}

/**
 * Runs `root`, which returns a scalar loss, and records its operations. In backward, the units that ran and the loose
 * parameters get gradients. After backward, `trained` is called. Throws: SHAPE if the loss is not a float32 scalar.
 */
export function gradients(
  engine: Engine,
  root: () => tf.Tensor,
  trained?: (parts: TrainedParts) => void,
): Pass {
  requireFunction(root);
  const tape = new Recording(engine, null, new Map(), null);
  const release = (): void => tape.release();
  const forget = engine.onRecover(release);
  const drop = (): void => {
    forget();
    release();
  };
  const loss = orElse(drop, () => scalar(record(tape, () => ownResult(tape, oneTensor(root(), 'The loss')))));
  let isDone = false;
  return {
    loss,
    backward(seed = 1): void {
      if (isDone) throw ranBefore();
      isDone = true;
      if (!tape.flows(loss)) {
        drop();
        throw dependsOnNothing();
      }
      const seeds: Gradients = new Map([[loss.id, untracked(() => tf.fill(loss.shape, seed))]]);
      orElse(drop, () => {
        handOut(engine, tape, backward(engine, tape, seeds));
      });
      forget();
      trained?.({ loose: [...tape.loose.values()], units: [...new Set(tape.owners.values())] });
    },
    dispose() {
      isDone = true;
      drop();
    },
  };
}

/**
 * Runs a unit's hooks and its forward, which has its own recording. Outside of `gradients`, no backward follows.
 * Throws: ENGINE inside tf.grads and similar functions, because their tape refers to parameters that the unit frees.
 */
export function runUnit(
  engine: Engine,
  unit: Unit,
  forward: (...inputs: tf.Tensor[]) => tf.Tensor,
  inputs: readonly tf.Tensor[],
): tf.Tensor {
  const { hooks, module, declared } = unit;
  const outer = currentRecording(`Unit '${module}'`);
  const phase = outer?.isReplayed === true ? 'recompute' : 'forward';
  untracked(() => hooks.preForward(phase));
  const run = (): tf.Tensor =>
    oneTensor(forward(...inputs), `The forward of ${module === '' ? 'the model' : `'${module}'`}`);
  const value = engine.tagged({ cause: 'temp', module, declared }, () => {
    return outer === null ? tf.tidy(run) : recordUnit(engine, unit, outer, run, inputs);
  });
  untracked(() => hooks.postForward(phase));
  return value;
}

function recordUnit(
  engine: Engine,
  unit: Unit,
  outer: Recording,
  run: () => tf.Tensor,
  inputs: readonly tf.Tensor[],
): tf.Tensor {
  const parameters = new ParameterSet(unit.parameters);
  const tape = new Recording(engine, outer, outer.owners, parameters, outer.sieve?.within() ?? 'keep');
  for (const tensor of unit.parameters().slice(0, unit.numTrained)) {
    tape.addLeaf(tensor);
    outer.owners.set(tensor.id, unit.module);
  }
  for (const input of inputs) if (outer.flows(input)) tape.addLeaf(input);
  const value = record(tape, () => ownResult(tape, run()));
  if (outer.sieve !== null) {
    outer.absorb(tape, value);
    return value;
  }
  if (!tape.flows(value)) {
    tape.release();
    return value;
  }
  const sources = [...inputs.filter((input) => outer.flows(input)), ...tape.captured.values()];
  outer.addUnit(unitNode(engine, unit, tape, parameters, value, sources));
  asRing(engine, value, unit.module);
  return value;
}

function unitNode(
  engine: Engine,
  unit: Unit,
  tape: Recording,
  parameters: ParameterSet,
  value: tf.Tensor,
  sources: readonly tf.Tensor[],
): RecordedNode {
  const named = new Map(sources.map((source) => [String(source.id), source]));
  return {
    id: value.id,
    kernelName: `unit ${unit.module}`,
    inputs: Object.fromEntries(named),
    outputs: [value],
    saved: [],
    gradient: ([dy]) => {
      const found = backwardUnit(engine, unit, tape, parameters, value, dy);
      return Object.fromEntries([...found].map(([id, gradient]) => [String(id), () => gradient]));
    },
    inner: tape,
    release: () => tape.release(),
  };
}

/** Runs a unit's backward. Its hook gets the parameters' gradients; returns the gradients of inputs and captured tensors. */
function backwardUnit(
  engine: Engine,
  unit: Unit,
  tape: Recording,
  parameters: ParameterSet,
  value: tf.Tensor,
  dy: tf.Tensor | undefined,
): Gradients {
  const { hooks, module, declared } = unit;
  untracked(() => hooks.preBackward());
  parameters.fill();
  // A checkpointed region inside the unit runs its second forward on the parameters' current tensors.
  for (const tensor of unit.parameters().slice(0, unit.numTrained)) tape.addLeaf(tensor);
  return engine.tagged({ cause: 'temp', module, declared }, () => {
    // The outer tape does not need `dy` any more, so the first operations here may overwrite `dy`, and it is freed early.
    const seeds: Gradients = dy === undefined ? new Map() : new Map([[value.id, dy]]);
    const found = backward(engine, tape, seeds);
    const own = parameters.pick(found).map((gradient) => gradient && handedOver(engine, gradient, module));
    for (const id of parameters.ids) found.delete(id);
    // The hook waits for other ranks, so it may be interrupted; then the tape disposes these gradients.
    for (const gradient of own) if (gradient !== null) tape.unfinished.add(gradient);
    try {
      untracked(() => hooks.postBackward(own));
    } finally {
      tape.unfinished.clear();
    }
    for (const gradient of found.values()) asRing(engine, gradient, module);
    return found;
  });
}

/** Adds gradients to loose parameters, and frees all other gradients. */
function handOut(engine: Engine, tape: Recording, found: Gradients): void {
  // If this function is interrupted, the tape releases these gradients.
  tape.inFlight = found;
  for (const [id, gradient] of found) {
    const leaf = tape.loose.get(id);
    const own = leaf === undefined ? null : handedOver(engine, gradient, leaf.module);
    found.delete(id);
    if (leaf === undefined || own === null) gradient.dispose();
    else accumulateGrad(engine, leaf, own);
  }
  tape.inFlight = null;
}

/** Tags a temporary that is passed to another unit. See [Note: pool and ring]. */
function asRing(engine: Engine, tensor: tf.Tensor, module: string): void {
  if (engine.tagOf(tensor).cause === 'temp') engine.retag(tensor, { cause: 'temp', module, part: 'ring' });
}

/** Returns the gradient in a buffer of its own that no tidy scope disposes. */
function handedOver(engine: Engine, gradient: tf.Tensor, module: string): tf.Tensor {
  const tag = { cause: 'grad.full', module } as const;
  if (isSoleOwner(gradient)) {
    engine.retag(gradient, tag);
    return tf.keep(gradient);
  }
  const copy = tf.keep(engine.allocate(gradient.shape, 'float32', tag));
  engine.copyInto(copy, 0, gradient);
  gradient.dispose();
  return copy;
}

/** Throws: CONFIG if `root` is not a function, for example a loss that was computed before the recording. */
function requireFunction(root: unknown): void {
  if (typeof root === 'function') return;
  throw new ConfigError(
    `gradients takes a function, which it runs and records, not ${classOf(root)}; write gradients(() => model.apply(…))`,
  );
}

/** Returns the value if it is a single tensor. Throws: SHAPE for no value, a promise, or several tensors. */
function oneTensor(value: unknown, what: string): tf.Tensor {
  if (value instanceof tf.Tensor) return value;
  const why =
    value === undefined
      ? 'undefined: is a return missing?'
      : value instanceof Promise
        ? 'a promise: a recorded function cannot be async.'
        : `${classOf(value)}, through which no gradient flows.`;
  throw new ShardlabError(
    'SHAPE',
    `${what} is ${why} Return one tensor of tf operations (for several, use tf.concat or tf.stack).`,
  );
}

function scalar(loss: tf.Tensor): tf.Tensor {
  if (loss.size === 1 && loss.dtype === 'float32') return loss;
  throw new ShardlabError(
    'SHAPE',
    `The loss is ${loss.dtype} [${loss.shape}]; gradients need a float32 scalar, such as a mean.`,
  );
}

function orElse<T>(undo: () => void, work: () => T): T {
  try {
    return work();
  } catch (error) {
    undo();
    throw error;
  }
}

/** Source: torch's 'element 0 of tensors does not require grad and does not have a grad_fn'. */
function dependsOnNothing(): ShardlabError {
  return new ShardlabError(
    'CONFIG',
    'the loss depends on no trainable parameter: either forward used none, or all parameters that it used are frozen, or the code read a value with dataSync and made a new tensor from it; compute the loss from model.apply(…) inside gradients(() => loss)',
  );
}

/** Source: torch's 'Trying to backward through the graph a second time'. */
function ranBefore(): ShardlabError {
  return new ShardlabError(
    'CONFIG',
    'backward or dispose has already run for this forward and has released its tensors; run gradients(() => loss) again, or add losses up and run one backward',
  );
}

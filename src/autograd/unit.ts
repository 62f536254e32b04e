import type { Engine } from '../backend/engine';
import { untracked } from '../backend/tfjs-state';
import type { HalfDType } from '../core/dtypes';
import { ConfigError, classOf, ShardlabError } from '../core/errors';
import * as tf from '../core/tf';
import { currentRecording } from './current-recording';
import { accumulateGrad, type Leaf } from './leaves';
import { ParameterSet } from './parameter-set';
import { type Gradients, type RecordedNode, Recording } from './recording';
import { backward, isSoleOwner, ownResult, record } from './tape';

/** Whether a forward is the first or, in a checkpointed region, the one that runs again just before its backward. */
export type ForwardPhase = 'forward' | 'recompute';

/**
 * What happens around a unit's forward and backward. Hooks run outside all tapes and tidy scopes: a tensor that a hook
 * makes lives until the hook's owner disposes it.
 */
export interface UnitHooks {
  /** Makes the parameters whole. */
  beforeForward(phase: ForwardPhase): void;
  /** May free the parameters. */
  afterForward(phase: ForwardPhase): void;
  /** Makes the parameters whole again, in the same or in new tensors. */
  beforeBackward(): void;
  /** Takes over the gradients, in the order of the parameters; null where the unit's output does not depend on one. */
  afterBackward(gradients: readonly (tf.Tensor | null)[]): void;
}

/** A part of a model whose parameters come and go together. */
export interface Unit {
  readonly hooks: UnitHooks;
  /** The parameters as they are now. A parameter keeps its place while its tensor changes. */
  readonly parameters: () => readonly tf.Tensor[];
  /** The first so many have gradients, the rest are frozen; default all. */
  readonly numTrained?: number | undefined;
  /** The module's full name, for tags. */
  readonly module: string;
  /** For tags: the type in which a device would compute the unit. */
  readonly declared?: HalfDType | undefined;
}

/** A finished forward whose backward can be run, once. */
export interface Pass {
  /** Belongs to the caller, as any result of tfjs operations. */
  readonly loss: tf.Tensor;
  /**
   * Runs backward from `seed` (default 1). Gradients reach the units' hooks, each unit's as soon as its own backward ran;
   * those of loose parameters are added to their `grad` at the end, this process's own.
   * Throws: CONFIG the second time, and where the loss depends on nothing that trains.
   */
  backward(seed?: number): void;
  /** Lets go of what forward saved, without backward. */
  dispose(): void;
}

/** What a pass trained: parameters under no unit, and the names of units that ran. */
export interface TrainedParts {
  readonly loose: readonly Leaf[];
  readonly units: readonly string[];
}

/**
 * Runs `root` to a scalar loss, with a recording. Gradients go to the units that run inside, and to parameters under none.
 * `trained` is told of both after a backward. Throws: SHAPE when the loss is not a float32 scalar.
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
 * Runs a unit: hooks, then forward on a recording of its own. In `gradients` its backward follows in time; elsewhere it is
 * inference. Throws: ENGINE inside tf.grads and its kin, whose tape keeps parameters that a unit frees.
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
  untracked(() => hooks.beforeForward(phase));
  const run = (): tf.Tensor =>
    oneTensor(forward(...inputs), `The forward of ${module === '' ? 'the model' : `'${module}'`}`);
  const value = engine.tagged({ cause: 'temp', module, declared }, () => {
    return outer === null ? tf.tidy(run) : recordUnit(engine, unit, outer, run, inputs);
  });
  untracked(() => hooks.afterForward(phase));
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

/** Backward of one unit. Hands the parameters' gradients over and returns those of inputs and captures. */
function backwardUnit(
  engine: Engine,
  unit: Unit,
  tape: Recording,
  parameters: ParameterSet,
  value: tf.Tensor,
  dy: tf.Tensor | undefined,
): Gradients {
  const { hooks, module, declared } = unit;
  untracked(() => hooks.beforeBackward());
  parameters.fill();
  // A region inside that runs forward again meets them as they are now.
  for (const tensor of unit.parameters().slice(0, unit.numTrained)) tape.addLeaf(tensor);
  return engine.tagged({ cause: 'temp', module, declared }, () => {
    // The outer tape has no further use for it: the first operations here may write over it, and it is freed early.
    const seeds: Gradients = dy === undefined ? new Map() : new Map([[value.id, dy]]);
    const found = backward(engine, tape, seeds);
    const own = parameters.pick(found).map((gradient) => gradient && handedOver(engine, gradient, module));
    for (const id of parameters.ids) found.delete(id);
    // A hook waits for others, and may be cut off.
    for (const gradient of own) if (gradient !== null) tape.unfinished.add(gradient);
    try {
      untracked(() => hooks.afterBackward(own));
    } finally {
      tape.unfinished.clear();
    }
    for (const gradient of found.values()) asRing(engine, gradient, module);
    return found;
  });
}

/** Gives loose parameters their gradients; the others are of no use. */
function handOut(engine: Engine, tape: Recording, found: Gradients): void {
  // To be let go where this is cut off.
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

/** Says of a temporary that it leaves its unit. See [Note: pool and ring]. */
function asRing(engine: Engine, tensor: tf.Tensor, module: string): void {
  if (engine.tagOf(tensor).cause === 'temp') engine.retag(tensor, { cause: 'temp', module, part: 'ring' });
}

/** The gradient in a buffer of its own that outlives the scopes around. */
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

/** Throws: CONFIG for what is no function: a loss that was computed before it was recorded. */
function requireFunction(root: unknown): void {
  if (typeof root === 'function') return;
  throw new ConfigError(
    `gradients takes a function, which it runs with a recording, not ${classOf(root)}; write gradients(() => model.apply(…))`,
  );
}

/** The value, which alone carries gradients. Throws: SHAPE for nothing, a promise, or several. */
function oneTensor(value: unknown, what: string): tf.Tensor {
  if (value instanceof tf.Tensor) return value;
  const why =
    value === undefined
      ? 'undefined: is there a return?'
      : value instanceof Promise
        ? 'a promise: what is recorded cannot be async.'
        : `${classOf(value)}, through which no gradient flows.`;
  throw new ShardlabError(
    'SHAPE',
    `${what} is ${why} Return one tensor of tf operations (of several, tf.concat or tf.stack).`,
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
    'the loss depends on no parameter that trains: forward read none, all that it read are frozen, or a value was taken out ' +
      'of tensors on the way (dataSync) and put into a new one; compute the loss from model.apply(…) inside gradients(() => loss)',
  );
}

/** Source: torch's 'Trying to backward through the graph a second time'. */
function ranBefore(): ShardlabError {
  return new ShardlabError(
    'CONFIG',
    'backward or dispose ran before for this forward, and let go of what it needed; run gradients(() => loss) again, or add losses up and run one backward',
  );
}

import { type HalfDType, tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import { beginPass } from '../backend/current-engine';
import type { Engine } from '../backend/engine';
import { untracked } from '../backend/tfjs-state';
import { isSoleOwner } from './differentiate';
import { accumulateGrad, type Leaf } from './leaves';
import { ParameterSet } from './parameter-set';
import {
  currentRecording,
  type Gradients,
  type RecordedNode,
  Recording,
  requireUnchanged,
  seedsOf,
} from './recording';
import type { Forward } from './region-call';
import { dependsOnNothing, oneTensor, ranBefore, requireFunction, requireTensors, scalar } from './results';
import { backward, ownResults, record, tidy } from './tape';

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
  /** The number of parameters that have gradients. These parameters come first, and all others are frozen. Default: all. */
  readonly numTrained?: number | undefined;
  /** The parameters themselves, in the order of `parameters`, so that backward notices changed values. Default: unknown. */
  readonly leaves?: readonly Leaf[] | undefined;
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
   * Runs backward; `seed` (default 1) is the gradient of the loss. Each unit's hook gets the unit's gradients as soon as the
   * unit's backward has run. At the end, gradients of loose parameters are added to their `grad`, without a reduction over
   * ranks.
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

/** Functions that `gradients` calls. */
export interface PassNotes {
  /** Is called after backward with the parameters that it reached. */
  readonly trained?: (parts: TrainedParts) => void;
  /** Is called with each tensor that forward reads and through which no gradient flows. */
  readonly readsData?: (input: tf.Tensor) => void;
  /** Is called with the loss before backward. */
  readonly begins?: (loss: tf.Tensor) => void;
}

/**
 * Runs `root`, which returns a scalar loss, and records its operations. In backward, the units that ran and the loose
 * parameters get gradients. Throws: SHAPE if the loss is not a float32 scalar.
 */
export function gradients(
  engine: Engine,
  root: () => tf.Tensor,
  { trained, readsData, begins }: PassNotes = {},
): Pass {
  requireFunction(root);
  const lossOf = (): tf.Tensor => scalar(oneTensor(root(), 'The loss'));
  const { tape, result: loss, finish, drop } = recordPass(engine, null, lossOf, readsData);
  return {
    loss,
    backward(seed = 1): void {
      begins?.(loss);
      finish(() => {
        if (!tape.flows(loss)) throw dependsOnNothing();
        requireUnchanged(tape);
        const seeds: Gradients = new Map([[loss.id, untracked(() => tf.fill(loss.shape, seed))]]);
        handOut(engine, tape, backward(engine, tape, seeds));
      });
      trained?.(trainedParts(tape));
    },
    dispose: drop,
  };
}

/** A recorded forward, and the functions that end its recording. */
export interface RecordedPass {
  readonly tape: Recording;
  /** The result of forward; the caller owns the tensor. */
  readonly result: tf.Tensor;
  /** Runs the backward, and releases the recording if it fails. Throws: CONFIG on a second call, and after `drop`. */
  finish(work: () => void): void;
  /** Releases the tensors that forward saved, without backward. */
  drop(): void;
}

/** Records a pass's forward; `input`, if given, gets a gradient. */
export function recordPass(
  engine: Engine,
  input: tf.Tensor | null,
  root: () => tf.Tensor,
  readsData?: PassNotes['readsData'],
): RecordedPass {
  beginPass();
  const tape = new Recording(engine, null, new Map(), null);
  tape.readsData = readsData ?? null;
  if (input !== null) tape.addLeaf(input);
  const release = (): void => tape.release();
  const forget = engine.onRecover(release);
  let isDone = false;
  const drop = (): void => {
    isDone = true;
    forget();
    release();
  };
  const result = orElse(drop, () => record(tape, () => ownResults(tape, root())));
  return {
    tape,
    result,
    finish(work) {
      if (isDone) throw ranBefore();
      isDone = true;
      orElse(drop, work);
      forget();
    },
    drop,
  };
}

/**
 * Runs a unit's hooks and its forward, which has its own recording. Outside of `gradients`, no backward follows.
 * Throws: ENGINE inside tf.grads and similar functions, because their tape refers to parameters that the unit frees.
 */
export function runUnit<Inputs extends readonly unknown[], Result>(
  engine: Engine,
  unit: Unit,
  forward: Forward<Inputs, Result>,
  inputs: Inputs,
): Result {
  const { hooks, module, declared } = unit;
  const outer = currentRecording(`Unit '${module}'`);
  const phase = outer?.isReplayed === true ? 'recompute' : 'forward';
  untracked(() => hooks.preForward(phase));
  const run = (): Result =>
    requireTensors(forward(...inputs), `The forward of ${module === '' ? 'the model' : `'${module}'`}`);
  const result = engine.tagged({ cause: 'temp', module, declared }, () => {
    return outer === null ? tidy(run) : recordUnit(engine, unit, outer, run, tensorsIn(inputs));
  });
  untracked(() => hooks.postForward(phase));
  return result;
}

function recordUnit<Result>(
  engine: Engine,
  unit: Unit,
  outer: Recording,
  run: () => Result,
  inputs: readonly tf.Tensor[],
): Result {
  const parameters = new ParameterSet(unit.parameters, unit.leaves);
  const tape = new Recording(engine, outer, outer.owners, parameters, outer.sieve?.within() ?? 'keep');
  for (const tensor of unit.parameters().slice(0, unit.numTrained)) {
    tape.addLeaf(tensor);
    outer.owners.set(tensor.id, unit.module);
  }
  for (const input of inputs) if (outer.flows(input)) tape.addLeaf(input);
  const result = record(tape, () => ownResults(tape, run()));
  const values = tensorsIn(result);
  for (const name of [unit.module, ...tape.units]) outer.units.add(name);
  if (outer.sieve !== null) {
    for (const leaf of [...(unit.leaves ?? []), ...tape.siftedLeaves]) outer.siftedLeaves.add(leaf);
    outer.absorb(tape, values);
    return result;
  }
  const flowing = values.filter((value) => tape.flows(value));
  if (flowing.length === 0) {
    tape.release();
    return result;
  }
  const sources = [...inputs.filter((input) => outer.flows(input)), ...tape.captured.values()];
  outer.addUnit(unitNode(engine, unit, tape, parameters, flowing, sources));
  for (const value of values) asRing(engine, value, unit.module);
  return result;
}

function unitNode(
  engine: Engine,
  unit: Unit,
  tape: Recording,
  parameters: ParameterSet,
  outputs: tf.Tensor[],
  sources: readonly tf.Tensor[],
): RecordedNode {
  const named = new Map(sources.map((source) => [String(source.id), source]));
  return {
    id: outputs[0]?.id ?? 0,
    kernelName: `unit ${unit.module}`,
    inputs: Object.fromEntries(named),
    outputs,
    saved: [],
    gradient: (dys) => {
      const gradients = backwardUnit(engine, unit, tape, parameters, seedsOf(outputs, dys));
      return Object.fromEntries([...gradients].map(([id, gradient]) => [String(id), () => gradient]));
    },
    inner: tape,
    units: [unit.module, ...tape.units],
    release: () => tape.release(),
  };
}

/**
 * Runs a unit's backward. The unit's hook gets the gradients of parameters; this function returns the gradients of inputs and
 * captured tensors.
 */
function backwardUnit(
  engine: Engine,
  unit: Unit,
  tape: Recording,
  parameters: ParameterSet,
  seeds: Gradients,
): Gradients {
  const { hooks, module, declared } = unit;
  untracked(() => hooks.preBackward());
  parameters.fill();
  // A checkpointed region inside the unit runs its second forward on the parameters' current tensors.
  for (const tensor of unit.parameters().slice(0, unit.numTrained)) tape.addLeaf(tensor);
  return engine.tagged({ cause: 'temp', module, declared }, () => {
    // The outer tape does not need the seeds any more, so the first operations here may overwrite the seeds, which are then
    // freed early.
    const gradients = backward(engine, tape, seeds);
    const own = parameters
      .pick(gradients)
      .map((gradient) => gradient && handedOver(engine, gradient, module));
    for (const id of parameters.ids) gradients.delete(id);
    // The hook waits for other ranks, so it may be interrupted. After an interrupt, the tape disposes these gradients.
    for (const gradient of own) if (gradient !== null) tape.unfinished.add(gradient);
    try {
      untracked(() => hooks.postBackward(own));
    } finally {
      tape.unfinished.clear();
    }
    for (const gradient of gradients.values()) asRing(engine, gradient, module);
    return gradients;
  });
}

/** Returns the parameters and units that a pass trained. */
export function trainedParts(tape: Recording): TrainedParts {
  return { loose: [...tape.loose.values()], units: [...new Set(tape.owners.values())] };
}

/**
 * Adds gradients to loose parameters, and frees all other gradients. A parameter that was frozen after forward gets none, as in
 * torch.
 */
export function handOut(engine: Engine, tape: Recording, gradients: Gradients): void {
  // If this function is interrupted, the tape releases these gradients.
  tape.inFlight = gradients;
  for (const [id, gradient] of gradients) {
    const leaf = tape.loose.get(id);
    const own = leaf?.requiresGrad !== true ? null : handedOver(engine, gradient, leaf.module);
    gradients.delete(id);
    if (leaf === undefined || own === null) gradient.dispose();
    else accumulateGrad(engine, leaf, own);
  }
  tape.inFlight = null;
}

/** Tags a temporary that is passed to another unit. See [Note: pool and ring]. */
function asRing(engine: Engine, tensor: tf.Tensor, module: string): void {
  if (engine.tagOf(tensor).cause === 'temp') engine.retag(tensor, { cause: 'temp', module, part: 'ring' });
}

/** Returns the gradient as a tensor that has its own buffer and that no tidy scope disposes. */
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

function orElse<T>(undo: () => void, work: () => T): T {
  try {
    return work();
  } catch (error) {
    undo();
    throw error;
  }
}

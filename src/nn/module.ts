import { inspect } from 'node:util';
import { flag, requireOptions } from '../config';
import { ConfigError, classOf, type Random, ShardlabError, seeded } from '../core';
import * as tf from '../core/tf';
import { currentDraws, currentEagerTape, currentEngine, currentTrace, type Engine } from '../engine';
import type { ProcessGroup } from '../wire';
import { isBuffer } from './buffer';
import { contentsOf } from './contents';
import { valuesOf } from './init';
import { ModuleTree } from './module-tree';
import type { Parameter, StateBuffer } from './parameter';
import { copyElements, floatsOf } from './spans';
import { readState, stateBuffers, writeState } from './state-values';
import type { TorchLayer } from './torch-layer';

/** The tag of tensors that the caller owns. */
const UNTAGGED = { cause: 'temp', module: '' } as const;

/** Whole values of a state dict: a tensor, or an array with its shape. */
export type StateValue =
  | tf.Tensor
  | { readonly shape: readonly number[]; readonly values: Float32Array | Int32Array }
  | {
      readonly shape: readonly number[];
      readonly slices: readonly { readonly start: number; readonly values: Float32Array }[];
    };

/** Values by torch's names, in a Map or in a plain object. */
export type StateValues = ReadonlyMap<string, StateValue> | Readonly<Record<string, StateValue>>;

/** The names that a load with `strict: false` left out. Source: torch's load_state_dict. */
export interface LoadedNames {
  /** Names that the module has and the dict does not have. */
  readonly missingKeys: readonly string[];
  /** Names that the dict has and the module does not have. */
  readonly unexpectedKeys: readonly string[];
}

/** Returns copies of whole tensors by name; all ranks that hold shards must call this function together. */
function stateDictOf(named: ReadonlyMap<string, Parameter>): Map<string, tf.Tensor> {
  const engine = requireEngine('stateDict()');
  const wholes = new Map<Parameter, tf.Tensor>();
  try {
    for (const parameter of named.values()) {
      if (wholes.has(parameter)) continue;
      if (!parameter.isAdopted) wholes.set(parameter, copyOf(engine, parameter.tensor));
      else for (const [each, tensor] of wholesOf(engine, parameter.state)) wholes.set(each, tensor);
    }
  } catch (error) {
    tf.dispose([...wholes.values()]);
    throw error;
  }
  const dict = [...named].flatMap(([name, parameter]) => {
    const tensor = wholes.get(parameter);
    return tensor === undefined ? [] : [[name, tensor] as const];
  });
  const used = new Set(dict.map(([, tensor]) => tensor));
  for (const tensor of wholes.values()) if (!used.has(tensor)) tensor.dispose();
  return new Map(dict);
}

/**
 * Writes a dict's values into parameters and buffers; each rank writes the elements that it holds, without communication.
 * `model` is the model's class, for messages. Throws: SHAPE before anything is written; the error names all entries that are
 * missing, unexpected (if `strict`) or of another shape.
 */
function loadStateValues(
  model: string,
  named: ReadonlyMap<string, Parameter>,
  stateValues: StateValues,
  strict: boolean,
): LoadedNames {
  const engine = requireEngine('loadStateDict()');
  const dict = stateValues instanceof Map ? stateValues : new Map(Object.entries(stateValues));
  const loaded = new Set([...named].filter(([name]) => dict.has(name)).map(([, parameter]) => parameter));
  const missingKeys = [...named].filter(([, parameter]) => !loaded.has(parameter)).map(([name]) => name);
  const unexpectedKeys = [...dict.keys()].filter((name) => !named.has(name));
  const writes = [...dict].flatMap(([name, value]) => {
    const parameter = named.get(name);
    return parameter === undefined ? [] : [{ name, parameter, value }];
  });
  const misfits = writes.flatMap(({ name, parameter, value }) => misfit(name, parameter, value) ?? []);
  const wrong = [
    ...(strict && missingKeys.length > 0 ? [`missing keys: ${quoted(missingKeys)}`] : []),
    ...(strict && unexpectedKeys.length > 0 ? [`unexpected keys: ${quoted(unexpectedKeys)}`] : []),
    ...misfits,
  ];
  if (wrong.length > 0) {
    throw new ShardlabError(
      'SHAPE',
      `the state dict does not fit ${model}: ${wrong.join('; ')}${misfits.length > 0 ? '' : '. To load only the names that fit, give { strict: false }'}`,
      { details: { missingKeys, unexpectedKeys } },
    );
  }
  for (const { parameter, value } of writes) write(engine, parameter, numbersOf(value));
  return { missingKeys, unexpectedKeys };
}

/** Returns the parameters of a strategy's buffer as whole tensors, gathered from the ranks that hold their parts. */
function wholesOf(engine: Engine, state: StateBuffer): Map<Parameter, tf.Tensor> {
  const { shardGroup, module } = state;
  const parameters = state.slices.map(({ parameter }) => parameter);
  const wholes = parameters.map(({ shape }) => engine.allocate(shape, 'float32', UNTAGGED));
  const whole = (i: number): tf.Tensor => wholes[i] as tf.Tensor; // `wholes` has a tensor for each parameter
  const own = engine.allocate([Math.max(1, state.size)], 'float32', { cause: 'comm', module });
  try {
    if (engine.hasValues)
      floatsOf(engine, { tensor: own, offset: 0 }, state.size).set(readState(engine, state));
    if (shardGroup === null) {
      state.slices.forEach(({ offset, length }, i) => {
        copyElements(engine, { tensor: own, offset }, { tensor: whole(i), offset: 0 }, length);
      });
    } else {
      const input = state.slices.map(({ offset, length }) => ({ tensor: own, offset, length }));
      const outputs = rangesOf(engine, shardGroup, state).map((ranges) =>
        present(ranges.map(({ start, length }, i) => ({ tensor: whole(i), offset: start, length }))),
      );
      const contents = contentsOf(module, parameters);
      shardGroup.allGatherPieces(present(input), outputs, { cause: 'param', module, contents }).wait();
    }
  } catch (error) {
    tf.dispose(wholes);
    throw error;
  } finally {
    own.dispose();
  }
  return new Map(parameters.map((parameter, i) => [parameter, whole(i)]));
}

/** Returns the pieces that have elements. */
function present<P extends { readonly length: number }>(pieces: readonly P[]): P[] {
  return pieces.filter(({ length }) => length > 0);
}

/** Returns, by rank of the group, the range of each parameter that the rank holds. */
function rangesOf(engine: Engine, group: ProcessGroup, state: StateBuffer) {
  const own = state.slices.flatMap(({ start, length }) => [start, length]);
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor(own, [own.length], 'int32'));
  try {
    const all = group.allGather(tensor, { cause: 'control', module: 'stateDict()' }).wait();
    const words = [...all.dataSync()];
    all.dispose();
    return group.ranks.map((_, rank) =>
      state.slices.map((_, i) => {
        const at = own.length * rank + 2 * i;
        return { start: words[at] ?? 0, length: words[at + 1] ?? 0 };
      }),
    );
  } finally {
    tensor.dispose();
  }
}

function write(engine: Engine, parameter: Parameter, numbers: Float32Array | Int32Array): void {
  const { state, shape, dtype } = parameter;
  if (isBuffer(parameter)) {
    const values = tf.tensor(numbers, [...shape], dtype);
    parameter.assign(values);
    values.dispose();
    return;
  }
  const values = numbers instanceof Float32Array ? numbers : Float32Array.from(numbers);
  if (!parameter.isAdopted && parameter.source !== null) parameter.defer(valuesOf(values.slice()));
  else if (engine.hasValues) {
    for (const { parameter: each, offset, start, length } of state.slices) {
      if (each === parameter) writeState(engine, state, offset, values.subarray(start, start + length));
    }
  }
}

function misfit(name: string, parameter: Parameter, value: StateValue): string | null {
  if (!Array.isArray(value?.shape)) {
    return `${name} is ${classOf(value)}; give a tensor, such as tf.zeros([${parameter.shape}])`;
  }
  if (value.shape.join() !== parameter.shape.join())
    return `${name} has shape [${value.shape.join(', ')}], the module's is [${parameter.shape.join(', ')}]${hintOfPart(parameter, value)}`;
  const isPart = 'slices' in value && value.slices[0]?.values.length !== parameter.size;
  return isPart ? `${name} has only a part of its values; load SHARDED dicts by FSDP.loadStateDict` : null;
}

/** Says how whole values are loaded if this rank has a part of the parameter. */
function hintOfPart({ split }: Parameter, { shape }: StateValue): string {
  if (split === null || split.wholeShape.join() !== shape.join()) return '';
  return ' (a part, because of tensor or expert parallelism): load whole values by FSDP.loadStateDict or loadCheckpoint';
}

function numbersOf(value: StateValue): Float32Array | Int32Array {
  if (value instanceof tf.Tensor) {
    const values = value.dataSync();
    return values instanceof Uint8Array ? Int32Array.from(values) : values;
  }
  return 'values' in value ? value.values : (value.slices[0]?.values ?? new Float32Array());
}

function copyOf(engine: Engine, tensor: tf.Tensor): tf.Tensor {
  const dtype = tensor.dtype as Parameter['dtype']; // the engine has no other types
  const copy = engine.allocate(tensor.shape, dtype, UNTAGGED);
  engine.copyInto(copy, 0, tensor);
  return copy;
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(', ');
}

function requireEngine(caller: string): Engine {
  const engine = currentEngine();
  if (engine !== null) return engine;
  throw new ConfigError(
    `${caller} needs a rank's engine; call it in a %%ranks cell or in job.on('all').run(…)`,
  );
}

/**
 * A part of a model: it has named parameters, child modules, and a forward on tfjs tensors. Subclasses define `forward`; to run
 * a module, call `apply` (torch's `__call__`). Modules, parameters and buffers that are assigned to the module's fields become
 * its children, parameters and buffers, in the order of the assignments:
 *
 * ```ts
 * class Net extends nn.Module {
 *   a = new nn.Linear(7, 13);
 *   b = new nn.Linear(13, 1);
 *   forward(x: tf.Tensor) {
 *     return this.b.apply(tf.relu(this.a.apply(x)));
 *   }
 * }
 * ```
 *
 * Names are as in torch: 'a.weight', or 'blocks.0.qkv.weight' in a ModuleList. Put several modules into an `nn.ModuleList` or
 * `nn.ModuleDict`, not into a plain array. Modules in private `#fields` are not registered and do not train. See
 * [Note: fields register].
 */
export abstract class Module extends ModuleTree {
  #isTraining = true;
  /**
   * Whether a step may skip the module on all ranks (as in a model that chooses one expert per diffusion timestep). An
   * optional module is always a separate unit, even if a policy does not choose it. If a step skips the module, the module's
   * parameters have no gradients (not zero gradients).
   */
  isOptional = false;

  /** The constructor's call that makes the same layer in PyTorch; null if an export writes the forward's operations instead. */
  get torchLayer(): TorchLayer | null {
    return null;
  }

  override get root(): Module {
    return super.root as Module; // all parts of a tree are modules
  }

  override get children(): ReadonlyMap<string, Module> {
    return super.children as ReadonlyMap<string, Module>; // all parts of a tree are modules
  }

  override modules(): Module[] {
    return super.modules() as Module[]; // all parts of a tree are modules
  }

  override namedModules(): Map<string, Module> {
    return super.namedModules() as Map<string, Module>; // all parts of a tree are modules
  }

  override getSubmodule(target: string): Module {
    return super.getSubmodule(target) as Module; // all parts of a tree are modules
  }

  override apply(...inputs: Parameters<this['forward']>): ReturnType<this['forward']> {
    const trace = currentTrace();
    if (trace !== null) {
      const run = (): unknown => super.apply(...inputs);
      return trace.module(this, inputs, run) as ReturnType<this['forward']>; // it returns the result of `run`
    }
    const eager = currentEagerTape();
    if (eager?.canRecord !== true) return super.apply(...inputs);
    if (this.#isTraining) return eager.run(this, () => super.apply(...inputs));
    return eager.evaluate(this, this.#inTheseModes(), inputs);
  }

  /** Returns the module's forward; when it runs again later, each module has the mode of the first run. */
  #inTheseModes(): (...inputs: Parameters<this['forward']>) => ReturnType<this['forward']> {
    let modes: ReadonlyMap<Module, boolean> | null = null;
    return (...inputs) => {
      if (modes === null) {
        modes = new Map(this.modules().map((module) => [module, module.#isTraining]));
        return super.apply(...inputs);
      }
      const now = [...modes.keys()].map((module) => [module, module.#isTraining] as const);
      for (const [module, mode] of modes) module.#isTraining = mode;
      try {
        return super.apply(...inputs);
      } finally {
        for (const [module, mode] of now) module.#isTraining = mode;
      }
    };
  }

  /** The whole model, if this module is one rank's part of a model (such as a stage of a pipeline); else the module itself. */
  get whole(): Module {
    return this;
  }

  /** Whether the module trains (default) or is evaluated. Dropout and batch norms read this flag. */
  get training(): boolean {
    return this.#isTraining;
  }

  /** Sets `training` of this module and all modules inside it; returns the module. */
  train(mode = true): this {
    for (const module of this.modules()) module.#isTraining = mode;
    return this;
  }

  /** Does the same as `train(false)`. */
  eval(): this {
    return this.train(false);
  }

  /** Returns the state buffers of the trainable parameters; these buffers do not contain the optimizer's states. */
  states(): StateBuffer[] {
    return stateBuffers(this.parameters());
  }

  /** Returns the number of elements of all parameters; a tied parameter counts once. */
  numParams(): number {
    return this.parameters().reduce((sum, parameter) => sum + parameter.size, 0);
  }

  /** Frees all gradients of this module and modules inside it. */
  zeroGrad(): void {
    for (const state of this.states()) state.zeroGrad();
  }

  /** Frees the buffers, and the whole tensors and gradients of all parameters; shards are freed by their units. */
  dispose(): void {
    for (const parameter of this.parameters()) {
      parameter.state.zeroGrad();
      parameter.free();
    }
    for (const buffer of this.buffers()) buffer.free();
  }

  /**
   * Returns copies of all parameters and persistent buffers, by torch's names; a tied parameter has all its names. If the
   * module is sharded, the values are gathered, so every rank must call this method (as for torch's FULL_STATE_DICT). Under
   * tensor and expert parallelism, the values are this rank's parts; `FSDP.stateDict(model)` returns whole values. The caller
   * disposes the tensors.
   */
  stateDict(): Map<string, tf.Tensor> {
    return stateDictOf(this.stateNames());
  }

  /**
   * Loads values by torch's names, from `stateDict()`, `FSDP.stateDict(model)` (FULL) or a plain object of tensors. Throws:
   * SHAPE for missing and unexpected names (unless `strict` is false) and for other shapes; after an error, nothing is loaded.
   */
  loadStateDict(dict: StateValues, options: { readonly strict?: boolean } = {}): LoadedNames {
    const { strict = true } = requireOptions('loadStateDict', options, { strict: flag });
    return loadStateValues(this.constructor.name, this.stateNames(), dict, strict);
  }

  /** Returns the text that `print`, template strings, consoles and notebooks show. */
  override toString(): string {
    return moduleText(this);
  }

  [inspect.custom](): string {
    return moduleText(this);
  }

  /**
   * Returns a source of random numbers for one call of a random layer, such as Dropout. The numbers depend on the model's
   * seed, the module's name, the rank and the step; they are the same when forward runs again in backward.
   */
  protected random(): Random {
    const draws = currentDraws();
    return seeded(this.seed, 'draw', this.path, draws.rank, draws.pass, draws.next++);
  }
}

/** The parts of a module that are printed. */
interface Printed {
  readonly ownParameters: ReadonlyMap<string, { readonly shape: readonly number[] }>;
  readonly children: ReadonlyMap<string, Printed>;
}

/**
 * Prints a module and all modules inside it, one per line; equal neighbours share one line. Source: the representation
 * of torch.nn.Module, and, for the module in a wrapper, of DistributedDataParallel.
 */
function moduleText(module: Printed): string {
  const parameters = [...module.ownParameters].map(([name, { shape }]) => `${name} [${shape.join(', ')}]`);
  const head = `${module.constructor.name}(${parameters.join(', ')}`;
  const children = [...module.children].map(([name, child]) => ({ name, text: moduleText(child) }));
  if (children.length === 0) return `${head})`;
  const lines = alike(children).map(({ first, last, count, text }) => {
    const many = count === 1 ? `(${first || 'module'}): ` : `(${first}-${last}): ${count} x `;
    return `${many}${text}`.replace(/^/gm, '  ');
  });
  return [head, ...lines, ')'].join('\n');
}

interface Alike {
  readonly first: string;
  readonly last: string;
  readonly count: number;
  readonly text: string;
}

/** Groups neighbours that have the same text, if their names are numbers (items of a list). */
function alike(children: readonly { readonly name: string; readonly text: string }[]): Alike[] {
  const groups: Alike[] = [];
  for (const { name, text } of children) {
    const before = groups.at(-1);
    const joins = before?.text === text && /^\d+$/.test(name);
    if (joins) groups[groups.length - 1] = { ...before, last: name, count: before.count + 1 };
    else groups.push({ first: name, last: name, count: 1, text });
  }
  return groups;
}

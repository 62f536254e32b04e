import { inspect } from 'node:util';
import { flag, requireOptions } from '../config';
import { type Random, seeded } from '../core';
import type * as tf from '../core/tf';
import { currentDraws, currentEagerTape } from '../engine';
import { moduleText } from './module-text';
import { ModuleTree } from './module-tree';
import type { StateBuffer } from './parameter';
import { type LoadedNames, loadStateValues, type StateValues, stateDictOf } from './state-dict';
import { stateBuffers } from './state-values';

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

import { ConfigError, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine, ForwardPhase, UnitHooks } from '../../engine';
import type { Module } from '../../nn';
import { FsdpSchedule, type PrefetchOptions } from './fsdp-schedule';
import type { FsdpUnit } from './fsdp-unit';
import { unitsOf } from './units-of';

/**
 * A module on which `fullyShard` was called, alone or in a list (then all modules of the list have the same unit). This object calls the schedule for the module's unit; a module without parameters
 * of its own has no unit. The module whose forward is called first becomes the root of all units inside it. See
 * [Note: a step of FSDP].
 * Source: FSDPState and its _lazy_init.
 */
export class ShardedModule implements UnitHooks {
  readonly #engine: Engine;
  readonly #module: Module;
  readonly #unit: FsdpUnit | null;
  readonly #prefetch: PrefetchOptions;
  #schedule: FsdpSchedule | null = null;

  constructor(engine: Engine, module: Module, unit: FsdpUnit | null, prefetch: PrefetchOptions) {
    this.#engine = engine;
    this.#module = module;
    this.#unit = unit;
    this.#prefetch = prefetch;
  }

  /**
   * Finds the schedule of the root, or makes it; runs before every forward. Throws: CONFIG if one of the root's units ran before
   * the root was sharded.
   */
  prepare(): void {
    this.#schedule ??= this.#joined() ?? this.#asRoot();
  }

  preForward(phase: ForwardPhase): void {
    const schedule = this.#scheduled();
    if (phase === 'recompute') {
      if (this.#unit !== null) schedule.preRecompute(this.#unit);
      return;
    }
    if (schedule.root === this.#module) schedule.rootPreForward();
    if (this.#unit !== null) schedule.preForward(this.#unit);
  }

  postForward(phase: ForwardPhase): void {
    const schedule = this.#scheduled();
    if (phase === 'recompute') return;
    if (this.#unit !== null) schedule.postForward(this.#unit, this.#module);
    if (schedule.root === this.#module) schedule.rootPostForward();
  }

  preBackward(): void {
    this.#scheduled().preBackward(this.#unit);
  }

  postBackward(grads: readonly (tf.Tensor | null)[]): void {
    const schedule = this.#scheduled();
    if (this.#unit !== null) schedule.postBackward(this.#unit, grads);
    if (schedule.root === this.#module) schedule.finalizeBackward();
  }

  /** Returns the schedule of a root around this module, if that root already has a schedule. */
  #joined(): FsdpSchedule | null {
    const scheduled = unitsOf(this.#module).find((unit) => unit.schedule !== null);
    const schedule = scheduled?.schedule ?? null;
    if (scheduled === undefined || !(schedule instanceof FsdpSchedule)) return null;
    if (schedule.root !== this.#module && schedule.root.modules().includes(this.#module)) return schedule;
    throw new ConfigError(
      `unit "${scheduled.module}" ran on its own before its root "${this.#module.path}" did; ` +
        `shard the root before the first forward, and call the root`,
    );
  }

  #asRoot(): FsdpSchedule {
    if (this.#unit !== null && this.#unit.owners.length > 1)
      throw new ConfigError(
        `"${this.#module.path}" is in one unit with other modules ("${this.#unit.module}") and cannot be a root; call fullyShard on the ` +
          'module around them, and call that module first',
      );
    const schedule = new FsdpSchedule(this.#engine, this.#module, this.#prefetch);
    for (const unit of schedule.units) unit.join(schedule, unit === this.#unit);
    return schedule;
  }

  #scheduled(): FsdpSchedule {
    if (this.#schedule !== null) return this.#schedule;
    throw new ShardlabError('INTERNAL', `module "${this.#module.path}" runs before its root was set up`);
  }
}

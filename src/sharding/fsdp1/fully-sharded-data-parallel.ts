import { flagSchema, parseOptions, type ShapeOf } from '../../config';
import { type Warn, warnOnce } from '../../core';
import { Module } from '../../nn';
import { type FullyShardOptions, fullyShard, type ShardContext } from '../fsdp/fully-shard';
import { noSync, unitsOf } from '../fsdp/units-of';
import { clipGradNormInPlace } from '../optim/clip-grad-norm';
import { modulesToWrap } from '../wrap-policy';
import { type FsdpOptions, fsdpSettings } from './fsdp-options';

/** The rank's objects that FSDP needs. */
export interface FsdpContext extends ShardContext {
  readonly warn: Warn;
}

/** The wrapper that FSDP returns: call it as you call the module; it has the module's fields. */
export type Fsdp<M extends Module> = FullyShardedDataParallel<M> & Omit<M, keyof Module>;

/**
 * Shards a module in place and returns a wrapper around it. Put the wrapper into the model in place of the module; if the
 * module is the whole model, call the wrapper. Each parameter is sharded by rows, as in FSDP2, not as part of a flat parameter
 * with padding, so bytes per rank differ from torch's FSDP1. Throws: CONFIG for arguments that FSDP does not have, MESH if the
 * mesh does not match the ranks.
 * Source: torch.distributed.fsdp.FullyShardedDataParallel.
 */
export function fsdp<M extends Module>(
  module: M,
  context: FsdpContext,
  fsdpOptions: FsdpOptions = {},
): Fsdp<M> {
  shardInPlace(module, context, fsdpOptions);
  // The constructor adds the module's fields to the wrapper.
  return new FullyShardedDataParallel(module, context) as Fsdp<M>;
}

/** Does the same as `fsdp`, but returns no wrapper: call the module itself. Throws the same errors as `fsdp`. */
export function shardInPlace(module: Module, context: FsdpContext, fsdpOptions: FsdpOptions = {}): void {
  const {
    policy,
    ignoredModules,
    group = context.group,
    mesh,
    options,
  } = fsdpSettings(fsdpOptions, context.warn);
  const shardContext: ShardContext = { ...context, group, mesh };
  for (const inner of modulesToWrap(module, policy, ignoredModules)) {
    shardUnlessDone(inner, shardContext, options);
  }
  fullyShard(module, shardContext, options);
}

/**
 * A wrapper around a sharded module. The units belong to the module and its submodules; the wrapper only records whether it is
 * being called.
 */
export class FullyShardedDataParallel<M extends Module = Module> extends Module {
  /** The sharded module. */
  readonly module: M;
  readonly #context: FsdpContext;
  #isCalling = false;

  constructor(module: M, context: FsdpContext) {
    super();
    this.module = this.addInner(module);
    this.#context = context;
    this.#passOnFields();
    this.#watchBareCalls(warnOnce(context.warn));
  }

  forward(...inputs: Parameters<M['forward']>): ReturnType<M['forward']> {
    const before = this.#isCalling;
    this.#isCalling = true;
    try {
      return this.module.apply(...inputs);
    } finally {
      this.#isCalling = before;
    }
  }

  /**
   * Runs `work` without reductions: each rank adds up its own gradients, which are whole. Source:
   * FullyShardedDataParallel.no_sync.
   */
  noSync<T>(work: () => T): T {
    return noSync(this.module, work);
  }

  /**
   * Scales the gradients of all ranks so that their total norm is at most `maxNorm`; returns the norm before scaling.
   * Source: FullyShardedDataParallel.clip_grad_norm_.
   */
  clipGradNorm(maxNorm: number): number {
    return clipGradNormInPlace(this.#context.engine, this.module, maxNorm);
  }

  /** Makes the module's fields readable on the wrapper, as in torch. */
  #passOnFields(): void {
    for (const name of Object.keys(this.module)) {
      if (name in this) continue;
      Object.defineProperty(this, name, { get: () => Reflect.get(this.module, name), enumerable: false });
    }
  }

  /**
   * Warns if the module is called without its wrapper: either the wrapper was not put into the model, or the code calls the
   * unwrapped model. In torch such a call fails if parameters are sharded over several ranks, because only the wrapper gathers
   * the parameters.
   */
  #watchBareCalls(warn: Warn): void {
    this.module.wrap((inputs, next) => {
      if (!this.#isCalling) warn(bareCall(this.module.path));
      return next(...inputs);
    });
  }
}

interface FsdpModulesOptions {
  /** Whether only the outermost modules are returned. Default false. */
  readonly rootOnly?: boolean;
}

const MODULES_OPTIONS = { rootOnly: flagSchema.default(false) } satisfies ShapeOf<FsdpModulesOptions>;

/** Returns all modules of a model that have a unit. Source: FullyShardedDataParallel.fsdp_modules. */
export function fsdpModules(model: Module, options: FsdpModulesOptions = {}): Module[] {
  const { rootOnly } = parseOptions('FSDP.fsdpModules(model, { … })', options, MODULES_OPTIONS);
  const owners = unitsOf(model).flatMap(({ owners }) => owners);
  if (!rootOnly) return owners;
  return owners.filter(
    (owner) => !owners.some((container) => container !== owner && container.modules().includes(owner)),
  );
}

function shardUnlessDone(module: Module, context: ShardContext, options: FullyShardOptions): void {
  const done = unitsOf(module).some(({ owners }) => owners.includes(module));
  if (!done) fullyShard(module, context, options);
}

function bareCall(path: string): string {
  if (path === '') {
    return 'FSDP: the code calls the unwrapped model instead of the wrapper that FSDP returned; in PyTorch this call fails, because only the wrapper gathers the sharded parameters. Call the wrapper';
  }
  const parts = path.split('.');
  const last = parts.at(-1) ?? '';
  const list = parts.slice(0, -1).map((part) => (/^\d+$/.test(part) ? `.at(${part})?` : `.${part}`));
  const form = /^\d+$/.test(last)
    ? `write model${list.join('')}.set(${last}, FSDP(…))`
    : 'put the wrapper into the model where the module was';
  return (
    `FSDP: the wrapper around "${path}" was not put into the model, so the model calls the unwrapped module. ` +
    `In PyTorch this call fails, because only the wrapper gathers the sharded parameters; here the module gathers them itself. To avoid this warning, ${form}`
  );
}

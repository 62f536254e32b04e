import { nearest } from '../config/nearest';
import type { WrapConfig } from '../config/settings/parallel';
import { ConfigError } from '../core/errors';
import { ModuleList } from '../nn/containers';
import { Linear } from '../nn/linear';
import type { Module } from '../nn/module';
import { modulesMatching } from '../nn/name-patterns';
import { requireSelfContained, useFromOutside } from '../nn/self-contained';
import {
  type ModuleClass,
  ModuleWrapPolicy,
  moeAutoWrapPolicy,
  sizeBasedAutoWrapPolicy,
  type WrapPolicy,
} from './wrap-policies';

/** Every item of a ModuleList, except lists inside such items: the blocks of a model. */
export function blockWrapPolicy(model: Module): WrapPolicy {
  return moduleListWrapPolicy(layersOf(model));
}

/** Only the root is a unit. */
export const rootOnly: WrapPolicy = () => false;

/** Exactly these modules are units. */
export function moduleListWrapPolicy(modules: Iterable<Module>): WrapPolicy {
  const chosen = new Set(modules);
  return (module, recurse) => recurse || chosen.has(module);
}

/** A module is a unit when one of the policies chooses it. Source: torch.distributed.fsdp.wrap._or_policy. */
export function anyWrapPolicy(...policies: readonly WrapPolicy[]): WrapPolicy {
  return (module, recurse, numel) => policies.some((policy) => asked(policy, module, recurse, numel));
}

/**
 * The policy that a config's `parallel.wrap` names.
 * Throws: CONFIG for a class or module that the model does not have, naming the nearest one, and for a named module
 * that cannot be a separate unit.
 */
export function wrapPolicyOf(wrap: WrapConfig, model: Module): WrapPolicy {
  if (wrap === 'blocks') return blockWrapPolicy(model);
  if (wrap === 'root') return rootOnly;
  if (wrap === 'linear') return ModuleWrapPolicy([Linear]);
  if (wrap === 'moe') return anyWrapPolicy(blockWrapPolicy(model), moeAutoWrapPolicy);
  if ('minNumParams' in wrap) return sizeBasedAutoWrapPolicy(wrap);
  if ('layerCls' in wrap) return ModuleWrapPolicy(wrap.layerCls.map((name) => classNamed(name, model)));
  const named = wrap.modules.flatMap((pattern) => modulesMatching(model, pattern, 'parallel.wrap.modules'));
  for (const module of named) requireSelfContained(module, 'parallel.wrap.modules');
  return moduleListWrapPolicy(named);
}

/** Modules that `modulesToWrap` leaves out. */
export interface WrapOptions {
  /** These modules, and all modules inside them, are in no unit. */
  readonly ignoredModules?: Iterable<Module>;
}

/**
 * The modules that a policy chooses, innermost and last first, and those that are optional, without the model itself. A
 * module whose parameter is also read by a module outside (a tied head reads the token table) is left to the enclosing
 * unit, whatever the policy says. Throws: CONFIG when the policy does not return true or false.
 * Source: torch.distributed.fsdp.wrap._recursive_wrap.
 */
export function modulesToWrap(model: Module, policy: WrapPolicy, options: WrapOptions = {}): Module[] {
  const ignored = new Set([...(options.ignoredModules ?? [])].flatMap((module) => module.modules()));
  const chosen = new Set<Module>();
  wrapWithin(model, { policy, ignored, chosen, root: model });
  for (const module of model.modules()) {
    if (module.isOptional && module !== model && !ignored.has(module)) chosen.add(module);
  }
  return [...chosen];
}

interface Walk {
  readonly policy: WrapPolicy;
  readonly ignored: ReadonlySet<Module>;
  /** The modules chosen so far. */
  readonly chosen: Set<Module>;
  readonly root: Module;
}

/** Chooses units inside a module, and the module itself; returns the number of elements in units. */
function wrapWithin(module: Module, walk: Walk): number {
  const { policy, ignored, chosen, root } = walk;
  const numel = numelWithout(module, ignored);
  if (!asked(policy, module, true, numel)) return 0;
  let wrapped = 0;
  for (const child of [...module.children.values()].reverse()) {
    if (!ignored.has(child) && !chosen.has(child)) wrapped += wrapWithin(child, walk);
  }
  if (module === root || !asked(policy, module, false, numel - wrapped)) return wrapped;
  if (useFromOutside(module) !== null) return wrapped;
  chosen.add(module);
  return numel;
}

function numelWithout(module: Module, ignored: ReadonlySet<Module>): number {
  const left = new Set([...ignored].flatMap((other) => [...other.ownParameters.values()]));
  return module
    .parameters()
    .filter((parameter) => !left.has(parameter))
    .reduce((sum, parameter) => sum + parameter.size, 0);
}

function asked(policy: WrapPolicy, module: Module, recurse: boolean, numel: number): boolean {
  if (policy.length <= 1 && recurse) return true;
  const answer: unknown = policy(module, recurse, numel);
  if (typeof answer === 'boolean') return answer;
  throw new ConfigError(
    `the wrap policy ${policy.name || '(a function)'} gave ${String(answer)} for module "${module.path}"; ` +
      'it is (module, recurse, nonwrappedNumel) => boolean, or made by one like transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] })',
  );
}

/** The layers of a model: items of its ModuleLists, but for lists within such items (a layer's experts). */
export function layersOf(model: Module): Module[] {
  if (model instanceof ModuleList) return [...model];
  return [...model.children.values()].flatMap(layersOf);
}

function classNamed(name: string, model: Module): ModuleClass {
  const classes = new Map<string, ModuleClass>();
  for (const module of model.modules()) {
    // A module's constructor is its class.
    if (module !== model) classes.set(module.constructor.name, module.constructor as ModuleClass);
  }
  const found = classes.get(name);
  if (found !== undefined) return found;
  const near = nearest(name, [...classes.keys()]);
  const hint = near === undefined ? `it has ${[...classes.keys()].join(', ')}` : `did you mean "${near}"?`;
  throw new ConfigError(`parallel.wrap.layerCls: the model has no module of class "${name}"; ${hint}`);
}

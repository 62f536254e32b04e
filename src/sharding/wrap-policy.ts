import { nearest, requireKnownOptions, type WrapConfig } from '../config';
import { ConfigError, shown } from '../core';
import {
  Block,
  CausalSelfAttention,
  isUsedFromOutside,
  Linear,
  Module,
  ModuleDict,
  ModuleList,
  MoeBlock,
  modulesMatching,
  requireSelfContained,
} from '../nn';

/**
 * Chooses the modules that become units, as in torch. If `recurse` is true, the policy returns whether to look for units inside
 * the module; if `recurse` is false, it returns whether the module becomes a unit. `nonwrappedNumel` is the number of the
 * module's elements that are in no unit yet. A policy with one argument is never called with `recurse` true. Source: FSDP's
 * auto_wrap_policy.
 */
export type WrapPolicy = (module: Module, recurse: boolean, nonwrappedNumel: number) => boolean;

// The policies below have the names of torch.distributed.fsdp.wrap. Most are functions that take options and return a
// policy. Torch needs functools.partial for this, but many tutorials omit it. So a policy function that gets no options throws
// an error that shows the right form.

/** A class of modules, such as nn.Block. */
export type ModuleClass = abstract new (...args: never[]) => Module;

/** The options of `transformerAutoWrapPolicy`. */
export interface TransformerPolicyOptions {
  /** Classes of blocks, such as [nn.Block]. */
  readonly transformerLayerCls: Iterable<ModuleClass>;
}

/**
 * Makes every module of these classes a unit. Source: torch.distributed.fsdp.wrap.transformer_auto_wrap_policy.
 * Throws: CONFIG without options, or for a value that is not a class.
 */
export function transformerAutoWrapPolicy(options: TransformerPolicyOptions): WrapPolicy {
  const form = 'transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] })';
  requireOptions(options, ['transformerLayerCls'], form);
  return byClass(classList(options.transformerLayerCls, form));
}

/**
 * Makes every module of these classes a unit. Source: torch.distributed.fsdp.wrap.ModuleWrapPolicy. Throws: CONFIG for a
 * value that is not a class.
 */
export function ModuleWrapPolicy(moduleClasses: Iterable<ModuleClass>): WrapPolicy {
  return byClass(classList(moduleClasses, 'ModuleWrapPolicy([nn.Block])'));
}

/** Options of `sizeBasedAutoWrapPolicy`. */
export interface SizePolicyOptions {
  /** The minimum number of elements of a unit. Default 1e8. */
  readonly minNumParams?: number;
  /** Classes in which no units are made. Default: attention. Source: FORCE_LEAF_MODULES. */
  readonly forceLeafModules?: Iterable<ModuleClass>;
  /** Classes that never become units. Default: ModuleList, which has no forward. Source: EXCLUDE_WRAP_MODULES. */
  readonly excludeWrapModules?: Iterable<ModuleClass>;
}

/** The default of `minNumParams`. Source: the default of torch's min_num_params. */
const MIN_NUM_PARAMS = 1e8;

/**
 * Makes a module a unit if at least `minNumParams` of its elements are not in units inside it.
 * Source: torch.distributed.fsdp.wrap.size_based_auto_wrap_policy. Throws: CONFIG if options are not in an object.
 */
export function sizeBasedAutoWrapPolicy(options: SizePolicyOptions = {}): WrapPolicy {
  const form = `sizeBasedAutoWrapPolicy({ minNumParams: ${typeof options === 'number' ? options : '1e8'} })`;
  requireOptions(options, ['minNumParams', 'forceLeafModules', 'excludeWrapModules'], form);
  const { minNumParams = MIN_NUM_PARAMS, forceLeafModules, excludeWrapModules } = options;
  if (!(minNumParams >= 1)) {
    throw new ConfigError(`sizeBasedAutoWrapPolicy: minNumParams is ${minNumParams}; give at least 1`);
  }
  const leaves = classList(forceLeafModules ?? [CausalSelfAttention], form);
  const excluded = classList(excludeWrapModules ?? [ModuleList], form);
  return (module, recurse, nonwrappedNumel) =>
    nonwrappedNumel >= minNumParams && !isOneOf(module, recurse ? leaves : excluded);
}

/** Options of `lambdaAutoWrapPolicy`. */
export interface LambdaPolicyOptions {
  readonly lambdaFn: (module: Module) => boolean;
}

/** Makes a module a unit if a function returns true for it. Source: torch.distributed.fsdp.wrap.lambda_auto_wrap_policy. */
export function lambdaAutoWrapPolicy(options: LambdaPolicyOptions): WrapPolicy {
  const form = 'lambdaAutoWrapPolicy({ lambdaFn: (module) => module instanceof nn.Block })';
  requireOptions(options, ['lambdaFn'], form);
  const { lambdaFn } = options;
  if (typeof lambdaFn !== 'function') throw new ConfigError(`lambdaFn is ${String(lambdaFn)}; write ${form}`);
  return (module, recurse) => recurse || lambdaFn(module);
}

/**
 * Makes each expert a unit, so that experts are gathered one at a time, and makes each block (its gate and all other parameters
 * outside of experts) another unit. This function is itself a policy and takes no options.
 */
export const moeAutoWrapPolicy: WrapPolicy = function moeAutoWrapPolicy(module, recurse, _nonwrappedNumel) {
  return recurse || isExpert(module) || isOneOf(module, [Block, MoeBlock]);
};

/**
 * Makes every module a unit, except lists (they have no forward). Source: torch.distributed.fsdp.wrap.always_wrap_policy.
 */
export const alwaysWrapPolicy: WrapPolicy = (module, recurse) => recurse || !(module instanceof ModuleList);

/** Makes only the root a unit. */
export const neverWrapPolicy: WrapPolicy = () => false;
export const rootOnly = neverWrapPolicy;

/** Whether a module is an item of a list named 'experts'. */
function isExpert(module: Module): boolean {
  return /(^|\.)experts\.\d+$/.test(module.path);
}

function byClass(classes: readonly ModuleClass[]): WrapPolicy {
  return (module, recurse) => recurse || isOneOf(module, classes);
}

function isOneOf(module: Module, classes: readonly ModuleClass[]): boolean {
  return classes.some((moduleClass) => module instanceof moduleClass);
}

/** Throws if a policy function was passed as a policy itself, because it is then called with a module in place of its options. */
function requireOptions(options: unknown, known: readonly string[], form: string): void {
  const name = form.slice(0, form.indexOf('('));
  if (options instanceof Module) {
    throw new ConfigError(
      `${name} is given as a policy without its options (torch: TypeError without functools.partial); write ${form}`,
    );
  }
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError(`${name} takes its options in an object, not ${shown(options)}; write ${form}`);
  }
  requireKnownOptions(`${name}({ … })`, options, known);
}

function classList(classes: unknown, form: string): readonly ModuleClass[] {
  const list = isIterable(classes) ? [...classes] : [];
  const wrong = list.find((item) => !isModuleClass(item));
  if (list.length === 0 || wrong !== undefined) {
    const description = wrong === undefined ? shown(classes) : `${shown(wrong)} in its list`;
    throw new ConfigError(
      `${form.slice(0, form.indexOf('('))} takes classes of modules, not ${description}; write ${form}`,
    );
  }
  return list.filter(isModuleClass);
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}

function isModuleClass(value: unknown): value is ModuleClass {
  return typeof value === 'function' && (value === Module || value.prototype instanceof Module);
}

/** Makes a unit of every block of a model. */
export function blockWrapPolicy(model: Module): WrapPolicy {
  return moduleListWrapPolicy(layersOf(model));
}

/** Makes exactly these modules units. */
export function moduleListWrapPolicy(modules: Iterable<Module>): WrapPolicy {
  const chosen = new Set(modules);
  return (module, recurse) => recurse || chosen.has(module);
}

/** Makes a module a unit if at least one of the policies chooses it. Source: torch.distributed.fsdp.wrap._or_policy. */
export function anyWrapPolicy(...policies: readonly WrapPolicy[]): WrapPolicy {
  return (module, recurse, numel) => policies.some((policy) => answerOf(policy, module, recurse, numel));
}

/**
 * Returns the policy that a config's `parallel.wrap` names.
 * Throws: CONFIG for a class or module that the model does not have (the error names a similar one), and for a named
 * module that cannot be a separate unit.
 */
export function wrapPolicyOf(wrap: WrapConfig, model: Module): WrapPolicy {
  if (wrap === 'blocks') return blockWrapPolicy(model);
  if (wrap === 'root') return rootOnly;
  if (wrap === 'linear') return ModuleWrapPolicy([Linear]);
  if (wrap === 'moe') return anyWrapPolicy(blockWrapPolicy(model), moeAutoWrapPolicy);
  if ('minNumParams' in wrap) return sizeBasedAutoWrapPolicy(wrap);
  if ('layerCls' in wrap) return ModuleWrapPolicy(wrap.layerCls.map((name) => classNamed(name, model)));
  const named = wrap.modules.flatMap((pattern) => modulesMatching(model, pattern, 'parallel.wrap.modules'));
  for (const module of named) requireSelfContained([module], 'parallel.wrap.modules');
  return moduleListWrapPolicy(named);
}

/**
 * Returns the modules that a policy chooses (inner modules first, and later modules before earlier ones), then modules with
 * `isOptional`, but not the model. If another module also uses a module's parameter (a tied head reads the token embedding, two
 * blocks hold one layer), the module stays in the enclosing unit, even if the policy chooses it. Ignored modules, and all modules inside them, are not
 * returned.
 * Throws: CONFIG if the policy does not return true or false. Source: torch.distributed.fsdp.wrap._recursive_wrap.
 */
export function modulesToWrap(
  model: Module,
  policy: WrapPolicy,
  ignoredModules: readonly Module[] = [],
): Module[] {
  const ignored = new Set(ignoredModules.flatMap((module) => module.modules()));
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

/** Chooses units among a module and the modules inside it; returns the number of elements in chosen units. */
function wrapWithin(module: Module, walk: Walk): number {
  const { policy, ignored, chosen, root } = walk;
  const numel = numelWithout(module, ignored);
  if (!answerOf(policy, module, true, numel)) return 0;
  let wrapped = 0;
  for (const child of [...module.children.values()].reverse()) {
    if (!ignored.has(child) && !chosen.has(child)) wrapped += wrapWithin(child, walk);
  }
  if (module === root || !answerOf(policy, module, false, numel - wrapped)) return wrapped;
  if (isUsedFromOutside(module)) return wrapped;
  chosen.add(module);
  return numel;
}

function numelWithout(module: Module, ignored: ReadonlySet<Module>): number {
  const left = new Set([...ignored].flatMap((ignoredModule) => [...ignoredModule.ownParameters.values()]));
  return module
    .parameters()
    .filter((parameter) => !left.has(parameter))
    .reduce((sum, parameter) => sum + parameter.size, 0);
}

function answerOf(policy: WrapPolicy, module: Module, recurse: boolean, numel: number): boolean {
  if (policy.length <= 1 && recurse) return true;
  const answer: unknown = policy(module, recurse, numel);
  if (typeof answer === 'boolean') return answer;
  throw new ConfigError(
    `the wrap policy ${policy.name || '(a function)'} gave ${String(answer)} for module "${module.path}"; ` +
      'give a function (module, recurse, nonwrappedNumel) => boolean, such as transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] })',
  );
}

/**
 * Returns the layers of a model: the items of its ModuleLists, except the items of lists inside such items (a layer's experts). If
 * an item is itself a list or dictionary, which nothing calls, its items are the layers.
 */
export function layersOf(model: Module): Module[] {
  if (model instanceof ModuleList) return [...model].flatMap(calledModules);
  return [...model.children.values()].flatMap(layersOf);
}

function calledModules(item: Module): Module[] {
  const isCalled = ![ModuleList, ModuleDict].some(({ prototype }) => item.forward === prototype.forward);
  return isCalled ? [item] : [...item.children.values()].flatMap(calledModules);
}

function classNamed(name: string, model: Module): ModuleClass {
  const classes = new Map<string, ModuleClass>();
  for (const module of [...model.modules(), ...model.whole.modules()]) {
    // The constructor of a module is the module's class.
    if (module !== model && module !== model.whole)
      classes.set(module.constructor.name, module.constructor as ModuleClass);
  }
  const moduleClass = classes.get(name);
  if (moduleClass !== undefined) return moduleClass;
  const near = nearest(name, [...classes.keys()]);
  const hint = near === undefined ? `it has ${[...classes.keys()].join(', ')}` : `did you mean "${near}"?`;
  throw new ConfigError(`parallel.wrap.layerCls: the model has no module of class "${name}"; ${hint}`);
}

import { requireKnownOptions } from '../config/option-names';
import { ConfigError } from '../core/errors';
import { Block, MoeBlock } from '../nn/block';
import { CausalSelfAttention } from '../nn/causal-self-attention';
import { ModuleList } from '../nn/containers';
import { Module } from '../nn/module';

/**
 * Chooses the modules that become units, in torch's form. With `recurse`, it says whether to look for units inside the
 * module; without, whether the module becomes a unit; `nonwrappedNumel` is its number of elements that are in no unit
 * yet. A policy with one argument is only called without `recurse`. Source: torch.distributed.fsdp's auto_wrap_policy.
 */
export type WrapPolicy = (module: Module, recurse: boolean, nonwrappedNumel: number) => boolean;

// The policies of torch.distributed.fsdp.wrap by their names. Each is a function of options that returns a policy.
// Torch needs functools.partial for that, but the documents omit it; a policy without options throws an error that
// shows the right form.

/** A class of modules. */
export type ModuleClass = abstract new (...args: never[]) => Module;

/** Options of `transformerAutoWrapPolicy`. */
export interface TransformerPolicyOptions {
  /** Classes of blocks, as [nn.Block]. */
  readonly transformerLayerCls: Iterable<ModuleClass>;
}

/**
 * Every module of these classes is a unit. Source: torch.distributed.fsdp.wrap.transformer_auto_wrap_policy.
 * Throws: CONFIG without options, or for a value that is not a class.
 */
export function transformerAutoWrapPolicy(options: TransformerPolicyOptions): WrapPolicy {
  const form = 'transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] })';
  requireOptions(options, ['transformerLayerCls'], form);
  return byClass(classList(options.transformerLayerCls, form));
}

/**
 * Every module of these classes is a unit. Source: torch.distributed.fsdp.wrap.ModuleWrapPolicy. Throws: CONFIG for a
 * value that is not a class.
 */
export function ModuleWrapPolicy(moduleClasses: Iterable<ModuleClass>): WrapPolicy {
  return byClass(classList(moduleClasses, 'ModuleWrapPolicy([nn.Block])'));
}

/** Options of `sizeBasedAutoWrapPolicy`. */
export interface SizePolicyOptions {
  /** The least number of elements of a unit. Default 1e8. */
  readonly minNumParams?: number;
  /** Classes in which no units are made. Default: attention. Source: FORCE_LEAF_MODULES. */
  readonly forceLeafModules?: Iterable<ModuleClass>;
  /** Classes that never become units. Default: ModuleList, which has no forward. Source: EXCLUDE_WRAP_MODULES. */
  readonly excludeWrapModules?: Iterable<ModuleClass>;
}

/** Source: the default of torch's min_num_params. */
const MIN_NUM_PARAMS = 1e8;

/**
 * A module becomes a unit when at least `minNumParams` of its elements are not in units inside it.
 * Source: torch.distributed.fsdp.wrap.size_based_auto_wrap_policy. Throws: CONFIG without options in an object.
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

/** Every module for which a function is true is a unit. Source: torch.distributed.fsdp.wrap.lambda_auto_wrap_policy. */
export function lambdaAutoWrapPolicy(options: LambdaPolicyOptions): WrapPolicy {
  const form = 'lambdaAutoWrapPolicy({ lambdaFn: (module) => module instanceof nn.Block })';
  requireOptions(options, ['lambdaFn'], form);
  const { lambdaFn } = options;
  if (typeof lambdaFn !== 'function') throw new ConfigError(`lambdaFn is ${String(lambdaFn)}; write ${form}`);
  return (module, recurse) => recurse || lambdaFn(module);
}

/**
 * Every expert is a unit, and every block without its experts: experts are gathered one at a time. The gate stays in
 * the block's unit. It is itself a policy and takes no options.
 */
export const moeAutoWrapPolicy: WrapPolicy = function moeAutoWrapPolicy(module, recurse, _nonwrappedNumel) {
  return recurse || isExpert(module) || isOneOf(module, [Block, MoeBlock]);
};

/**
 * Every module is a unit, except lists, which have no forward. Source: torch.distributed.fsdp.wrap.always_wrap_policy.
 */
export const alwaysWrapPolicy: WrapPolicy = (module, recurse) => recurse || !(module instanceof ModuleList);

/** Only the root is a unit. */
export const neverWrapPolicy: WrapPolicy = () => false;

/** Whether a module is an item of a list named 'experts'. */
export function isExpert(module: Module): boolean {
  return /(^|\.)experts\.\d+$/.test(module.path);
}

function byClass(classes: readonly ModuleClass[]): WrapPolicy {
  return (module, recurse) => recurse || isOneOf(module, classes);
}

function isOneOf(module: Module, classes: readonly ModuleClass[]): boolean {
  return classes.some((moduleClass) => module instanceof moduleClass);
}

/** Detects a bare policy: it is called with a module in place of its options. */
function requireOptions(options: unknown, known: readonly string[], form: string): void {
  const name = form.slice(0, form.indexOf('('));
  if (options instanceof Module) {
    throw new ConfigError(
      `${name} is given as a policy without its options (torch: TypeError without functools.partial); write ${form}`,
    );
  }
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError(`${name} takes its options in an object, not ${String(options)}; write ${form}`);
  }
  requireKnownOptions(`${name}({ … })`, options, known);
}

function classList(classes: unknown, form: string): readonly ModuleClass[] {
  const list = isIterable(classes) ? [...classes] : [];
  const wrong = list.find((item) => !isModuleClass(item));
  if (list.length === 0 || wrong !== undefined) {
    const given = wrong === undefined ? String(classes) : `${String(wrong).slice(0, 40)} in its list`;
    throw new ConfigError(
      `${form.slice(0, form.indexOf('('))} takes classes of modules, not ${given}; write ${form}`,
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

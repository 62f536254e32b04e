import type { OffloadConfig, OptimizerConfig } from '../../config';
import type { Warn } from '../../core';
import type { Engine } from '../../engine';
import type { Module } from '../../nn';
import { adamWRule } from './adamw';
import { adamW8bitRule } from './adamw-8bit';
import { DelayedUpdate } from './delayed-update';
import { lionRule } from './lion';
import type { HasStates, Optimizer } from './optimizer';
import { namedGroups } from './param-groups';
import { type OptimizerPlacement, RuleOptimizer } from './rule-optimizer';
import { sgdRule } from './sgd';
import type { UpdateRule } from './update-rule';

/**
 * Makes a config's optimizer; `offload` says whether the optimizer's states are on the host. If the config has groups, they
 * name parameters of `named`. `warnOfMissing` gets a warning about parameters without gradients. Throws: CONFIG for settings that contradict each other.
 */
export function createOptimizer(
  engine: Engine,
  model: HasStates,
  config: OptimizerConfig,
  offload: OffloadConfig,
  named = model as Module, // a model, if groups are named
  warnOfMissing?: Warn,
): Optimizer {
  const groups = config.groups.length === 0 ? undefined : namedGroups(named, config.groups);
  const placement: OptimizerPlacement = { onHost: offload.optimizer, groups, warnOfMissing };
  const rule = ruleOf(config);
  const create = (of: HasStates): Optimizer => new RuleOptimizer(engine, of, rule, config.lr, placement);
  return config.delayedUpdate ? new DelayedUpdate(engine, model, placement, create) : create(model);
}

function ruleOf(config: OptimizerConfig): UpdateRule {
  switch (config.kind) {
    case 'adamW':
      return adamWRule(config);
    case 'adam':
      return adamWRule(config, false);
    case 'adamW8bit':
      return adamW8bitRule(config);
    case 'sgd':
      return sgdRule(config);
    case 'lion':
      return lionRule(config);
    default:
      return config.kind satisfies never;
  }
}

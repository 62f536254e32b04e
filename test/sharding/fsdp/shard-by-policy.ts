import type { Module } from '../../../src/nn/module';
import {
  type FullyShardOptions,
  fullyShard,
  type ShardContext,
} from '../../../src/sharding/fsdp/fully-shard';
import { modulesToWrap, type WrapPolicy } from '../../../src/sharding/wrap-policy';

/** Makes units of the modules that a policy selects, innermost first, and the model the root. Returns the model. */
export function fullyShardByPolicy<M extends Module>(
  model: M,
  policy: WrapPolicy,
  context: ShardContext,
  options: FullyShardOptions = {},
): M {
  const { ignoredModules = [] } = options;
  for (const module of modulesToWrap(model, policy, ignoredModules)) fullyShard(module, context, options);
  return fullyShard(model, context, options);
}

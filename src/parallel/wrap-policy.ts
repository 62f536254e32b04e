import type { WrapConfig } from '../config/parallel-config';
import { ConfigError } from '../core/errors';
import { type Module, ModuleList } from '../nn/module';

/** Says which modules become units of their own. */
export type WrapPolicy = (module: Module) => boolean;

/** A class of modules. */
export type ModuleClass = abstract new (...args: never[]) => Module;

/** Every module of these classes is a unit. Source: torch.distributed.fsdp.wrap.transformer_auto_wrap_policy. */
export function transformerAutoWrapPolicy(options: {
  readonly transformerLayerCls: Iterable<ModuleClass>;
}): WrapPolicy {
  const classes = [...options.transformerLayerCls];
  return (module) => classes.some((layer) => module instanceof layer);
}

/** Every item of a ModuleList is a unit: the blocks of a model. */
export function blockWrapPolicy(model: Module): WrapPolicy {
  const blocks = new Set<Module>();
  for (const module of model.modules()) {
    if (module instanceof ModuleList) for (const block of module) blocks.add(block);
  }
  return (module) => blocks.has(module);
}

/** No module but the root is a unit. */
export const rootOnly: WrapPolicy = () => false;

/** The policy that a config's `parallel.wrap` names. */
export function wrapPolicyOf(wrap: WrapConfig, model: Module): WrapPolicy {
  if (wrap === 'blocks') return blockWrapPolicy(model);
  if (wrap === 'root') return rootOnly;
  throw new ConfigError(`parallel.wrap is ${JSON.stringify(wrap)}; 'blocks' and 'root' can be used`);
}

/** The modules that a policy chooses, innermost first, without the model itself. */
export function modulesToWrap(model: Module, policy: WrapPolicy): Module[] {
  return model
    .modules()
    .filter((module) => module !== model && policy(module))
    .reverse();
}

import type { ActivationCheckpointingConfig } from '../../config/settings/memory';
import { ConfigError } from '../../core/errors';
import type { Module } from '../../nn/module';
import { layersOf } from '../wrap-policy';
import { type ActivationCheckpointing, BudgetedLayers } from './budgeted';
import { type CheckpointContext, checkpointed, offloaded } from './checkpointed';
import { EXPENSIVE_OPS, kernelsOf } from './save-ops';

/**
 * Makes a model's layers (the items of its ModuleLists) save less for backward, as a config says. Call it before a
 * strategy is applied to the model. Throws: CONFIG for a model without layers and for operations that do not exist;
 * after the first forward, for a budget that cannot be met. Source: torchtitan's apply_ac; torch's
 * apply_activation_checkpointing.
 */
export function applyActivationCheckpointing(
  context: CheckpointContext,
  model: Module,
  config: ActivationCheckpointingConfig | null,
  offload: boolean,
): ActivationCheckpointing {
  if (config === null && !offload) return { layers: [], choice: null };
  const layers = layersOf(model);
  if (layers.length === 0) {
    throw new ConfigError(
      `${model.constructor.name} has no list of layers to ${config === null ? 'offload' : 'checkpoint'}; ` +
        'put its blocks into a ModuleList, or wrap the modules yourself with checkpointWrapper',
    );
  }
  if (config !== null && typeof config === 'object' && 'budgetBytes' in config)
    return new BudgetedLayers(context, model, layers, config.budgetBytes, offload);
  const keepResultsOf = keptBy(config);
  const isCheckpointed = choiceOf(config);
  const names: string[] = [];
  layers.forEach((layer, place) => {
    if (isCheckpointed(place)) {
      checkpointed(context, layer, { keepResultsOf, offload });
      names.push(layer.path);
    } else if (offload) {
      offloaded(context, layer);
    }
  });
  return { layers: names, choice: null };
}

function keptBy(config: ActivationCheckpointingConfig | null): ReadonlySet<string> | undefined {
  if (config === 'selective') return kernelsOf(EXPENSIVE_OPS);
  return config !== null && typeof config === 'object' && 'saveOps' in config
    ? kernelsOf(config.saveOps)
    : undefined;
}

/** Which indices in the list of layers are checkpointed. */
function choiceOf(config: ActivationCheckpointingConfig | null): (place: number) => boolean {
  if (config === null) return () => false;
  const everyNth = typeof config === 'object' && 'everyNth' in config ? config.everyNth : 1;
  return (place) => place % everyNth === 0;
}

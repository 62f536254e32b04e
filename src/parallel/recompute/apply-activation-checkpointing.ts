import type { ActivationCheckpointingConfig } from '../../config/settings/memory';
import { ConfigError } from '../../core/errors';
import type { Module } from '../../nn/module';
import { layersOf } from '../wrap-policy';
import { BudgetedLayers } from './budgeted';
import { type CheckpointContext, checkpointed, offloaded } from './checkpointed';
import type { LayerChoice } from './choose-layers';
import { EXPENSIVE_OPS, kernelsOf } from './save-ops';

/** The result of activation checkpointing on a model's layers. */
export interface ActivationCheckpointing {
  /**
   * Full names of the layers that run forward again; null until they are chosen (a budget, before the first forward).
   */
  readonly layers: readonly string[] | null;
  /** The solution of a budget, once it is known. */
  readonly choice: LayerChoice | null;
}

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
    return budgeted(context, model, layers, config.budgetBytes, offload);
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

function budgeted(
  context: CheckpointContext,
  model: Module,
  layers: readonly Module[],
  budgetBytes: number,
  offload: boolean,
): ActivationCheckpointing {
  const chosen = new BudgetedLayers(context, model, layers, budgetBytes, offload);
  return {
    get layers() {
      return chosen.choice?.checkpointed.map((place) => layers[place]?.path ?? '') ?? null;
    },
    get choice() {
      return chosen.choice;
    },
  };
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

import { type ActivationCheckpointingConfig, nearest } from '../../config';
import { ConfigError } from '../../core';
import * as tf from '../../core/tf';
import { FUSED, hasFused } from '../../engine';
import type { Module } from '../../nn';
import { layersOf } from '../wrap-policy';
import { type ActivationCheckpointing, BudgetedLayers } from './budgeted';
import { type CheckpointContext, checkpointed, offloaded } from './checkpointed';

/**
 * Applies a config's activation checkpointing to a model's layers (the items of its ModuleLists). Call this function before
 * a strategy is applied to the model. Throws: CONFIG for a model without layers and for operations that do not exist. The
 * first forward throws CONFIG for a budget that cannot be met. Source: torchtitan's apply_ac; torch's
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
  layers.forEach((layer, i) => {
    if (isCheckpointed(i)) {
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

/** Returns a function that says whether the layer with an index is checkpointed. */
function choiceOf(config: ActivationCheckpointingConfig | null): (index: number) => boolean {
  if (config === null) return () => false;
  const everyNth = typeof config === 'object' && 'everyNth' in config ? config.everyNth : 1;
  return (index) => index % everyNth === 0;
}

/** For each operation of model code: its fused kernel, and the kernels that replace the fused kernel on an engine without it. */
const OPERATIONS: ReadonlyMap<
  string,
  { readonly fused: (typeof FUSED)[keyof typeof FUSED]; readonly parts: readonly string[] }
> = new Map([
  ['linear', { fused: FUSED.linear, parts: ['matMul'] }],
  ['causalAttention', { fused: FUSED.causalAttention, parts: ['matMul', 'causalSoftmax'] }],
  ['flashAttention', { fused: FUSED.flashAttention, parts: ['matMul', 'Softmax'] }],
  ['causalSoftmax', { fused: FUSED.causalSoftmax, parts: ['Softmax'] }],
  ['layerNorm', { fused: FUSED.layerNorm, parts: [] }],
  ['gelu', { fused: FUSED.gelu, parts: [] }],
  ['embedding', { fused: FUSED.embedding, parts: ['GatherV2'] }],
  ['conv2d', { fused: FUSED.conv2d, parts: ['Conv2D'] }],
]);

/** The kernels of tfjs for 'matMul'. */
const PRODUCTS = ['BatchMatMul', '_FusedMatMul'];

/** Kernels whose results cannot be saved, because they are views or lists. */
const NOT_SAVED: ReadonlySet<string> = new Set(['Identity', 'Reshape', 'ExpandDims', 'Unpack', 'SplitV']);

/**
 * The operations that 'selective' saves, because it is most expensive to run them again: matmuls, attention and convolutions.
 * Source: torchtitan's _save_list (mm, scaled dot-product attention).
 */
export const EXPENSIVE_OPS: readonly string[] = [
  'linear',
  'causalAttention',
  'flashAttention',
  'matMul',
  'conv2d',
  'Conv2D',
  'FusedConv2D',
];

/** Returns the engine's kernels for names of operations or kernels. Throws: CONFIG for an unknown name. */
export function kernelsOf(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.flatMap(kernelsOfOne));
}

function kernelsOfOne(name: string): readonly string[] {
  if (name === 'matMul') return PRODUCTS;
  const operation = OPERATIONS.get(name);
  if (operation !== undefined)
    return hasFused(operation.fused) ? [operation.fused] : operation.parts.flatMap(kernelsOfOne);
  const known = knownKernels();
  if (known.includes(name)) return [name];
  const operations = [...OPERATIONS.keys(), 'matMul'];
  const near = nearest(name, [...operations, ...known]);
  throw new ConfigError(
    `activationCheckpointing.saveOps: '${name}' is not an operation whose result can be saved` +
      `${near === undefined ? '.' : `; did you mean '${near}'?`} Choose from ${operations.join(', ')}, and the kernels of the ` +
      `engine (${known.slice(0, 3).join(', ')}, … ${known.length} in all)`,
  );
}

function knownKernels(): string[] {
  return tf
    .getKernelsForBackend(tf.getBackend())
    .map(({ kernelName }) => kernelName)
    .filter((kernelName) => !NOT_SAVED.has(kernelName))
    .sort();
}

import { type ActivationCheckpointingConfig, nearest } from '../../config';
import { type Bytes, ConfigError, itemBytes, tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import { type Engine, FUSED, hasFused, type Meter, type RecordedNode, runOffloaded } from '../../engine';
import type { Module, Next } from '../../nn';
import { layersOf } from '../wrap-policy';
import { type CheckpointContext, checkpointed, checkpointWrapperOf, offloaded } from './checkpointed';

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

/** Kernels that only move or reshape values. */
const NO_FLOPS: ReadonlySet<string> = new Set([
  'Cast',
  'Concat',
  'ExpandDims',
  'Identity',
  'Pack',
  'Reshape',
  'Slice',
  'SplitV',
  'Transpose',
  'Unpack',
]);

/** The bytes that a layer saves for backward, and the cost of its forward. */
export interface LayerCost {
  /** Bytes that the layer saves without checkpointing. */
  readonly savedBytes: Bytes;
  /** Bytes that the layer saves with checkpointing: its inputs. */
  readonly inputBytes: Bytes;
  /** Floating-point operations of the layer's forward, which run again with checkpointing. */
  readonly flops: number;
}

/** Counts the operations of a layer's forward and the bytes that the layer would save; each buffer counts once. */
class LayerMeter {
  readonly #engine: Engine;
  readonly #saved = new Map<object, Bytes>();
  readonly #inputs = new Map<object, Bytes>();
  #flops = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get cost(): LayerCost {
    return { savedBytes: sum(this.#saved), inputBytes: sum(this.#inputs), flops: this.#flops };
  }

  /** Resets the counts when a forward begins. */
  restart(): void {
    this.#saved.clear();
    this.#inputs.clear();
    this.#flops = 0;
  }

  noteInputs(inputs: readonly tf.Tensor[]): void {
    this.#note(inputs, this.#inputs);
  }

  readonly meter: Meter = (node, saved) => {
    this.#note(saved, this.#saved);
    this.#flops += layerFlopsOf(node);
  };

  /** Adds tensors' bytes; parameters and batches do not count, because they are in memory anyway. */
  #note(tensors: readonly tf.Tensor[], to: Map<object, Bytes>): void {
    for (const tensor of tensors) {
      const { cause } = this.#engine.tagOf(tensor);
      if (cause !== 'temp' && cause !== 'activation') continue;
      // The engine has no other dtypes.
      to.set(tensor.dataId, tensor.size * itemBytes(tensor.dtype as 'float32' | 'int32' | 'bool'));
    }
  }
}

function sum(bytes: ReadonlyMap<object, Bytes>): Bytes {
  return [...bytes.values()].reduce((total, part) => total + part, 0);
}

/** Returns an operation's multiplications and additions: one per element except in matmuls, attention and convolutions. */
export function layerFlopsOf({
  kernelName,
  inputs,
  outputs,
}: Pick<RecordedNode, 'kernelName' | 'inputs' | 'outputs'>): number {
  const size = outputs[0]?.size ?? 0;
  switch (kernelName) {
    case FUSED.linear:
      return 2 * size * (inputs.x?.shape.at(-1) ?? 0);
    case FUSED.causalAttention:
      // Two matmuls: queries with keys, and scores with values, for all pairs of positions.
      return 4 * size * (inputs.qkv?.shape[1] ?? 0);
    case FUSED.flashAttention:
      return 4 * size * (inputs.k?.shape[1] ?? 0);
    case 'BatchMatMul':
    case '_FusedMatMul':
      return 2 * size * innerLength(inputs.a, inputs.b, outputs[0]);
    case 'Conv2D':
    case 'FusedConv2D':
      return (2 * size * (inputs.filter?.size ?? 0)) / (outputs[0]?.shape.at(-1) ?? 1);
    case FUSED.conv2d:
      return (2 * size * (inputs.filter?.size ?? 0)) / (outputs[0]?.shape[1] ?? 1);
    case FUSED.conv2dInputGrad: // a transposed convolution
      return (2 * (inputs.dy?.size ?? 0) * (inputs.filter?.size ?? 0)) / (inputs.dy?.shape[1] ?? 1);
    default:
      return NO_FLOPS.has(kernelName) ? 0 : size;
  }
}

/** Returns the length k over which a matmul sums, for plain and for transposed inputs: (m·k)(k·n) = (m·n)·k². */
function innerLength(...[a, b, product]: readonly (tf.Tensor | undefined)[]): number {
  return Math.sqrt((matrixSize(a) * matrixSize(b)) / Math.max(1, matrixSize(product)));
}

function matrixSize(tensor: tf.Tensor | undefined): number {
  const [rows = 0, columns = 0] = tensor?.shape.slice(-2) ?? [];
  return rows * columns;
}

/** The result of activation checkpointing on a model's layers. */
export interface ActivationCheckpointing {
  /** Full names of the layers that run forward again; null if there is a budget and no forward has run yet. */
  readonly layers: readonly string[] | null;
  /** The choice of layers for a budget, when it is known. */
  readonly choice: LayerChoice | null;
}

/**
 * Checkpoints the layers that are cheapest to run again, so that saved bytes are within a budget.
 *
 * [Note: measured choice] The first forward checkpoints every layer, which needs the least memory, and counts each layer's
 * operations and the bytes that the layer would save without checkpointing. When this forward ends, the layers are chosen. The
 * counts depend only on shapes, so ranks with batches of the same shape choose the same layers without communication. Measured
 * times would differ between ranks and between runs.
 */
class BudgetedLayers implements ActivationCheckpointing {
  readonly #layers: readonly Module[];
  readonly #meters: LayerMeter[];
  readonly #budgetBytes: Bytes;
  #choice: LayerChoice | null = null;
  #checkpointed: ReadonlySet<Module> = new Set();

  constructor(
    context: CheckpointContext,
    model: Module,
    layers: readonly Module[],
    budgetBytes: Bytes,
    offload: boolean,
  ) {
    this.#layers = layers;
    this.#budgetBytes = budgetBytes;
    this.#meters = layers.map(() => new LayerMeter(context.engine));
    layers.forEach((layer, i) => {
      this.#wrap(context, layer, i, offload);
    });
    model.wrap((inputs, next) => {
      if (this.#choice === null) for (const meter of this.#meters) meter.restart();
      const output = next(...inputs);
      this.#choose();
      return output;
    });
  }

  get choice(): LayerChoice | null {
    return this.#choice;
  }

  get layers(): readonly string[] | null {
    return this.#choice?.checkpointed.map((index) => this.#layers[index]?.path ?? '') ?? null;
  }

  #wrap(context: CheckpointContext, layer: Module, index: number, offload: boolean): void {
    const meter = this.#meters[index] as LayerMeter; // each layer has one meter
    const measured = checkpointWrapperOf(context, layer, { offload, meter: meter.meter });
    const chosen = checkpointWrapperOf(context, layer, { offload });
    const plain = (inputs: unknown[], next: Next): unknown =>
      offload ? runOffloaded(context.engine, layer.path, next, inputs) : next(...inputs);
    layer.wrap((inputs, next) => {
      if (this.#choice !== null) return (this.#checkpointed.has(layer) ? chosen : plain)(inputs, next);
      meter.noteInputs(tensorsIn(inputs));
      return measured(inputs, next);
    });
  }

  /** Chooses the layers after the first forward with gradients. Throws: CONFIG when the budget cannot be met. */
  #choose(): void {
    const costs = this.#meters.map(({ cost }) => cost);
    // A forward without gradients saves nothing.
    if (this.#choice !== null || costs.every(({ flops }) => flops === 0)) return;
    this.#choice = chooseLayers(costs, this.#budgetBytes);
    const indices = new Set(this.#choice.checkpointed);
    this.#checkpointed = new Set(this.#layers.filter((_, i) => indices.has(i)));
  }
}

/** The layers that run forward again, the bytes that are saved, and the cost of running forward again. */
export interface LayerChoice {
  /** The indices of these layers in the list of layers. */
  readonly checkpointed: readonly number[];
  /** Bytes that all layers together save between forward and backward. */
  readonly savedBytes: Bytes;
  readonly recomputedFlops: number;
}

interface Partial {
  readonly savedBytes: Bytes;
  readonly recomputedFlops: number;
  /** Whether the layer that was added last is checkpointed; `before` has the choices for earlier layers. */
  readonly isCheckpointed: boolean;
  readonly before: Partial | null;
}

/**
 * Chooses the layers to checkpoint so that at most `budgetBytes` are saved and recomputation is minimal. The solution is
 * exact: the algorithm lists all choices that no other choice beats in both bytes and operations (Nemhauser and Ullmann
 * 1969, for the 0/1 knapsack). The result depends only on the arguments. Among equal choices, earlier layers are
 * checkpointed, because their activations would be in memory longest.
 * Throws: CONFIG if the budget is too small; the error names the smallest possible budget.
 */
export function chooseLayers(costs: readonly LayerCost[], budgetBytes: Bytes): LayerChoice {
  // The smallest number of bytes that the remaining layers can store for backward.
  let rest = costs.reduce((sum, cost) => sum + leastBytes(cost), 0);
  if (rest > budgetBytes) {
    throw new ConfigError(
      `activationCheckpointing.budgetBytes is ${budgetBytes}, but with any choice of layers, at least ${rest} bytes are stored for ` +
        `backward; give at least ${rest}, use a smaller batch, or put activations on the host (offload.activations)`,
    );
  }
  let choices: readonly Partial[] = [
    { savedBytes: 0, recomputedFlops: 0, isCheckpointed: false, before: null },
  ];
  for (const cost of costs) {
    rest -= leastBytes(cost);
    choices = unbeaten(choices, cost, budgetBytes - rest);
  }
  const [best] = [...choices].sort((a, b) => a.recomputedFlops - b.recomputedFlops);
  return {
    ...placesOf(best),
    savedBytes: best?.savedBytes ?? 0,
    recomputedFlops: best?.recomputedFlops ?? 0,
  };
}

function leastBytes({ savedBytes, inputBytes }: LayerCost): Bytes {
  return Math.min(savedBytes, inputBytes);
}

/**
 * Extends each choice by the next layer, once with the layer checkpointed and once without. Drops choices for which another
 * choice is at least as good in both bytes and operations.
 */
function unbeaten(choices: readonly Partial[], cost: LayerCost, limit: Bytes): Partial[] {
  const kept = choices.map((before) => ({
    savedBytes: before.savedBytes + cost.savedBytes,
    recomputedFlops: before.recomputedFlops,
    isCheckpointed: false,
    before,
  }));
  const checkpointed = choices.map((before) => ({
    savedBytes: before.savedBytes + cost.inputBytes,
    recomputedFlops: before.recomputedFlops + cost.flops,
    isCheckpointed: true,
    before,
  }));
  // The sort is stable, so among equal choices, the choice in which the later layer is not checkpointed comes first and
  // remains.
  const all = [...kept, ...checkpointed]
    .filter(({ savedBytes }) => savedBytes <= limit)
    .sort((a, b) => a.savedBytes - b.savedBytes || a.recomputedFlops - b.recomputedFlops);
  let least = Number.POSITIVE_INFINITY;
  return all.filter(({ recomputedFlops }) => {
    if (recomputedFlops >= least) return false;
    least = recomputedFlops;
    return true;
  });
}

function placesOf(choice: Partial | undefined): Pick<LayerChoice, 'checkpointed'> {
  const flags: boolean[] = [];
  for (let at = choice ?? null; at?.before != null; at = at.before) flags.push(at.isCheckpointed);
  return { checkpointed: flags.reverse().flatMap((isCheckpointed, place) => (isCheckpointed ? place : [])) };
}

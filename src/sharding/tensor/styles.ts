import { countSchema, ofKind, parseOptions, type ShapeOf } from '../../config';
import { ConfigError, isRecord, shown } from '../../core';
import type * as tf from '../../core/tf';
import { currentDraws } from '../../engine';
import {
  CausalSelfAttention,
  Dropout,
  Embedding,
  LayerNorm,
  Linear,
  type Module,
  type Parameter,
  RMSNorm,
} from '../../nn';
import type { ProcessGroup } from '../../wire';
import { toColumnParallel } from './column-parallel-linear';
import { copyToTensorParallelRegion } from './mappings';
import { toRowParallel } from './row-parallel-linear';
import type { Ties } from './split-parameter';
import type { TensorContext } from './tensor-context';
import { toVocabParallel } from './vocab-parallel-embedding';

/** How the values of an activation are distributed over ranks. Source: torch.distributed.tensor.placement_types. */
export type Placement = { readonly kind: 'replicate' } | { readonly kind: 'shard'; readonly dim: number };

/** Every rank has the whole tensor. */
export const Replicate = (): Placement => ({ kind: 'replicate' });

/** Each rank has a part of the tensor along a dim; -1 is the last dim. Throws: CONFIG for a dim that is no integer. */
export function Shard(dim: number): Placement {
  if (!Number.isInteger(dim))
    throw new ConfigError(
      `Shard(${shown(dim)}): give the dim that is cut, such as Shard(1) for the sequence`,
    );
  return { kind: 'shard', dim };
}

/** How `parallelizeModule` makes a module tensor-parallel, in place. Source: torch's ParallelStyle. */
export interface ParallelStyle {
  readonly name: string;
  apply(module: Module, context: TensorContext, ties: Ties): void;
}

/** The placements of a layer's input and output. */
export interface Layouts {
  readonly inputLayouts?: Placement | undefined;
  readonly outputLayouts?: Placement | undefined;
}

/** Options of `ColwiseParallel`: layouts, and heads that are never divided. */
export interface ColwiseOptions extends Layouts {
  /** The number of heads into which the outputs are divided. Default: the cut may be between any two outputs. */
  readonly heads?: number | undefined;
  /** How many tensors are fused in the outputs: 3 for queries, keys and values. Default 1. */
  readonly parts?: number | undefined;
}

const LAYOUT = ofKind<Placement>({ words: 'Replicate() or Shard(dim)', accepts: isRecord });
const LAYOUTS = { inputLayouts: LAYOUT, outputLayouts: LAYOUT } satisfies ShapeOf<Layouts>;

const COLUMNS = {
  ...LAYOUTS,
  heads: countSchema,
  parts: countSchema,
} satisfies ShapeOf<ColwiseOptions>;

/**
 * Gives each rank a part of a Linear's outputs (`ColumnParallelLinear`). Input: Replicate() (default) or Shard(1), a part of the
 * sequence. Output: Shard(-1) (default) or Replicate(). Source: torch.distributed.tensor.parallel.ColwiseParallel. Throws:
 * CONFIG for other layouts, and when the style is applied to another module.
 */
export function ColwiseParallel(options: ColwiseOptions = {}): ParallelStyle {
  const settings = parseOptions('ColwiseParallel({ … })', options, COLUMNS);
  const { inputLayouts = Replicate(), outputLayouts = Shard(-1), heads, parts } = settings;
  const sequenceParallel =
    choice('ColwiseParallel: inputLayouts', inputLayouts, [Replicate(), Shard(1)]) === 1;
  const gatherOutput =
    choice('ColwiseParallel: outputLayouts', outputLayouts, [Shard(-1), Replicate()]) === 1;
  return {
    name: 'ColwiseParallel',
    apply(module, { group, warn }, ties) {
      if (module.constructor !== Linear) throw unfit('ColwiseParallel', module, 'nn.Linear');
      const linear = module as Linear<boolean>; // as just checked
      toColumnParallel(linear, { group, sequenceParallel, gatherOutput, heads, parts }, warn, ties);
    },
  };
}

/**
 * Gives each rank a part of a Linear's inputs (`RowParallelLinear`), or of an Embedding's rows (`VocabParallelEmbedding`). Input:
 * Shard(-1) (default for a Linear) or Replicate(). Output: Replicate() (default) or Shard(1), a part of the sequence.
 * Source: torch.distributed.tensor.parallel.RowwiseParallel. Throws: CONFIG for other layouts, and when the style is applied to
 * another module.
 */
export function RowwiseParallel(options: Layouts = {}): ParallelStyle {
  const layouts = parseOptions('RowwiseParallel({ … })', options, LAYOUTS);
  const { inputLayouts = Shard(-1), outputLayouts = Replicate() } = layouts;
  const inputIsParallel =
    choice('RowwiseParallel: inputLayouts', inputLayouts, [Replicate(), Shard(-1)]) === 1;
  const sequenceParallel =
    choice('RowwiseParallel: outputLayouts', outputLayouts, [Replicate(), Shard(1)]) === 1;
  return {
    name: 'RowwiseParallel',
    apply(module, { group, warn }, ties) {
      if (module.constructor === Embedding) {
        toVocabParallel(module as Embedding, { group, sequenceParallel }, warn, ties);
        return;
      }
      if (module.constructor !== Linear) throw unfit('RowwiseParallel', module, 'nn.Linear or nn.Embedding');
      const linear = module as Linear<boolean>; // as just checked
      toRowParallel(linear, { group, inputIsParallel, sequenceParallel }, warn, ties);
    },
  };
}

/**
 * Lets a norm or a dropout run on this rank's part of the sequence (dim 1). The gradients of a norm's parameters are summed
 * over ranks, and on each rank, a dropout draws other random numbers. Source: torch.distributed.tensor.parallel.SequenceParallel.
 * Throws: CONFIG when the style is applied to another module.
 */
export function SequenceParallel(): ParallelStyle {
  return {
    name: 'SequenceParallel',
    apply(module, { group }) {
      if (module.constructor === LayerNorm || module.constructor === RMSNorm)
        toSequenceParallel(module as LayerNorm<boolean> | RMSNorm, group); // as just checked
      else if (module instanceof Dropout) drawAs(module, group.ranks[group.rank] ?? 0);
      else throw unfit('SequenceParallel', module, 'nn.LayerNorm, nn.RMSNorm or nn.Dropout');
    },
  };
}

/**
 * Gives each rank a part of the heads of an `nn.CausalSelfAttention`. Throws: CONFIG when the style is applied, if the ranks do
 * not divide the heads.
 */
export function HeadsParallel(): ParallelStyle {
  return {
    name: 'HeadsParallel',
    apply(module, { group }) {
      if (!(module instanceof CausalSelfAttention))
        throw unfit('HeadsParallel', module, 'nn.CausalSelfAttention');
      requireHeads(module.path, module.heads, group.size);
      module.heads /= group.size;
    },
  };
}

/** Throws: CONFIG unless the ranks divide the heads of queries. */
export function requireHeads(layer: string, heads: number, ranks: number): void {
  if (heads % ranks === 0) return;
  throw new ConfigError(
    `tensor parallelism: the attention "${layer}" cannot be cut into ${ranks} parts: it has ${heads} heads, and a head is never ` +
      `divided, because its softmax needs all of its values; choose a number of ranks that divides ${heads}`,
    { layer, heads, ranks },
  );
}

/** Makes the random layers of a module draw the random numbers of the rank with index `rank`. */
export function drawAs(module: Module, rank: number): void {
  module.wrap((inputs, next) => {
    const draws = currentDraws();
    const before = draws.rank;
    draws.rank = rank;
    try {
      return next(...inputs);
    } finally {
      draws.rank = before;
    }
  });
}

/** Returns the index of a layout among the two possible layouts. */
function choice(argument: string, layout: Placement, choices: readonly [Placement, Placement]): number {
  const textOf = (placement: Placement): string =>
    placement.kind === 'shard' ? `Shard(${placement.dim})` : 'Replicate()';
  const index = choices.findIndex((possible) => textOf(possible) === textOf(layout));
  if (index >= 0) return index;
  throw new ConfigError(`${argument} is ${textOf(layout)}, but must be ${choices.map(textOf).join(' or ')}`);
}

function unfit(style: string, module: Module, wanted: string): ConfigError {
  const type = module.constructor.name;
  const reason = module.ownParameters.has('in_proj_weight')
    ? 'its forward reads the whole fused weight of queries, keys and values, so the weight cannot be cut; write the attention with an nn.Linear ' +
      'for each of these three'
    : `${style} takes ${wanted}; name such a module inside of this module`;
  const name = module.path === '' ? 'the module itself' : `"${module.path}"`;
  return new ConfigError(`${style} of ${name}, a ${type}: ${reason}`);
}

// Each rank normalizes its part of the sequence. The gradients of weight and bias are sums over the whole sequence, so backward
// all-reduces these gradients: f of [Note: f and g] is applied to the parameters.

/** A `LayerNorm` of a part of the sequence. */
class SequenceParallelLayerNorm extends LayerNorm<boolean> {
  declare readonly sequenceGroup: ProcessGroup;

  override forward(x: tf.Tensor): tf.Tensor {
    const shared = sharedOver(this.sequenceGroup, this.path);
    return this.normalized(x, shared(this.weight), shared(this.bias));
  }
}

/** An `RMSNorm` of a part of the sequence. */
class SequenceParallelRMSNorm extends RMSNorm {
  declare readonly sequenceGroup: ProcessGroup;

  override forward(x: tf.Tensor): tf.Tensor {
    return this.normalized(x, sharedOver(this.sequenceGroup, this.path)(this.weight));
  }
}

/** Makes a `LayerNorm` or an `RMSNorm` normalize a part of the sequence, in place. */
function toSequenceParallel(norm: LayerNorm<boolean> | RMSNorm, group: ProcessGroup): void {
  const { prototype } = norm instanceof RMSNorm ? SequenceParallelRMSNorm : SequenceParallelLayerNorm;
  Object.assign(norm, { sequenceGroup: group });
  // The object stays the same, because a new object would have to replace it in fields and containers.
  Object.setPrototypeOf(norm, prototype);
}

function sharedOver(group: ProcessGroup, module: string) {
  // A norm without scale or bias has null as `weight` or `bias`.
  return (parameter: Parameter | null): tf.Tensor | undefined =>
    parameter === null ? undefined : copyToTensorParallelRegion(parameter.tensor, group, module);
}

import { type OptimizerConfig, RECOMPUTED, type TrainConfig } from '../config';
import type { Hardware } from './hardware';
import type { ModelShape } from './model-shape';
import type { ReadPlace } from './place';

/** What runs again in backward. */
export const RECOMPUTE = ['none', ...RECOMPUTED] as const;

export type Precision = 'fp32' | 'fp16' | 'bf16' | 'fp8';

/** The settings of an optimizer on which its states depend. */
export type PlannedOptimizer = Pick<OptimizerConfig, 'kind' | 'amsgrad' | 'momentum' | 'blockSize'>;

type Degrees = Pick<TrainConfig['parallel'], 'strategy' | 'tp' | 'pp' | 'cp' | 'ep' | 'sequenceParallel'>;

/**
 * The parts of a layout that figures, costs and capacities read. The model may be a user's own model, of which only the name,
 * the number of parameters and the tokens of a sample are known.
 */
export interface AnyLayout extends Readonly<Degrees> {
  readonly model: Pick<ModelShape, 'name' | 'seq' | 'params'>;
  readonly hardware: Hardware;
  /** 'shardlab': this library's own schedule and kernels, which a dry run counted. */
  readonly stack: NonNullable<ReadPlace['stack']> | 'shardlab';
  readonly gpus: number;
  readonly dp: number;
  /** Number of ranks that share one set of shards: dp x cp; under hybrid strategies, usually the ranks of a node. */
  readonly shards: number;
  /** Sequences per iteration. */
  readonly globalBatch: number;
  readonly microBatch: number;
  /** Microbatches of a data-parallel rank per iteration. */
  readonly numMicroBatches: number;
  readonly recompute: (typeof RECOMPUTE)[number];
  /** Under full recompute, every n-th layer is recomputed, beginning with the first layer. */
  readonly recomputeEveryNth: number;
  readonly virtualStages: number;
  readonly optimizer: PlannedOptimizer;
  readonly offload: Readonly<Pick<TrainConfig['offload'], 'optimizer' | 'parameters'>>;
}

type OfPlace = {
  readonly [Key in Exclude<
    keyof ReadPlace,
    'hardware' | 'gpusPerNode' | 'nicGbit' | 'fp8' | 'baseWeights'
  >]: NonNullable<ReadPlace[Key]>;
};

/** One way to run a model on GPUs, with all choices made. The settings of a place are described there. */
export interface Layout extends AnyLayout, OfPlace {
  readonly model: ModelShape;
  readonly stack: OfPlace['stack'];
  readonly precision: Precision;
  readonly schedule: 'GPipe' | '1F1B' | 'interleaved';
  /** Type in which gradients are reduced; null: the framework's default. */
  readonly reduceDtype: Exclude<Precision, 'fp8'> | null;
  /** How attention reaches the positions of other ranks under context parallelism. */
  readonly cpKind: TrainConfig['parallel']['cpKind'];
  /** Whether the units of a pipeline's stage are freed after each forward; see `gatherCounts`. */
  readonly reshardsStages: boolean;
  readonly commHook: TrainConfig['parallel']['commHook'];
  /** Type of the frozen weights under adapters; null: the type of the trained weights. */
  readonly baseWeights: NonNullable<ReadPlace['baseWeights']> | null;
  /** A frozen model that encodes texts for the trained model; null: there is none. */
  readonly textEncoder: { readonly params: number; readonly sharded: boolean } | null;
}

/** Whether a layout's model has formulas; other layouts are counted. See [Note: counted plans]. */
export function isPredicted(layout: AnyLayout): layout is Layout {
  return layout.stack !== 'shardlab';
}

/** The sentence that tables and the command show beside every counted plan. See [Note: counted plans]. */
export const COUNTED =
  "a dry run executed this library's own schedule and kernels on shapes, with times that are predicted for the plan's GPUs; the plan does not predict PyTorch's kernels or allocator";

/** Returns the share of layers that recompute concerns: under full recompute every n-th layer, otherwise all. */
export function recomputedShare({ recompute, recomputeEveryNth, model }: Layout): number {
  return recompute === 'full' ? Math.ceil(model.layers / recomputeEveryNth) / model.layers : 1;
}

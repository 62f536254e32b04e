import { seeded } from '../../core/random';
import type { Seconds } from '../../core/units';
import type { Layout } from '../layout';
import { layoutOf } from '../layout-of';
import megatron from './megatron2021-table1.json';
import vtrain from './vtrain-single-node-a100.json';

/** A layout that somebody ran, and what an iteration took. */
export interface MeasuredLayout {
  readonly source: 'vtrain' | 'megatron2021';
  readonly layout: Layout;
  readonly seconds: Seconds;
  /** Not used when the constants were fitted. */
  readonly heldOut: boolean;
}

/**
 * 1440 iterations of Megatron-DeepSpeed on one node of A100 (vTrain's data set: fp16, full recompute, 1F1B, vocabulary of
 * 51200). A seeded shuffle holds one half out of the fit.
 */
export function vtrainLayouts(): MeasuredLayout[] {
  const heldOut = halfOf(vtrain.rows.length);
  return vtrain.rows.map((row, index) => {
    const [
      gpus = 0,
      global = 0,
      micro = 0,
      dim = 0,
      heads = 0,
      layers = 0,
      seq = 0,
      tp = 0,
      dp = 0,
      pp = 0,
      ms = 0,
    ] = row;
    const layout = layoutOf({
      model: { kind: 'gpt', layers, dim, heads, seq, vocab: 51_200 },
      gpus,
      parallel: { dp, tp, pp, strategy: 'NO_SHARD' },
      batch: { global, micro },
      ...MEGATRON,
    });
    return { source: 'vtrain', layout, seconds: ms / 1e3, heldOut: heldOut.has(index) };
  });
}

/**
 * 10 weak-scaling runs of Megatron-LM on A100-80G with 8 x 200 Gbit/s a node. The table states TFLOP/s a GPU by the paper's
 * own count, from which the iteration's time follows. Source: Narayanan et al. 2021, table 1 and equation 3.
 */
export function megatronLayouts(): MeasuredLayout[] {
  return megatron.rows.map((row) => {
    const [
      ,
      heads = 0,
      dim = 0,
      layers = 0,
      tp = 0,
      pp = 0,
      gpus = 0,
      global = 0,
      seq = 0,
      vocab = 0,
      micro = 0,
      virtualStages = 0,
      tflops = 0,
    ] = row;
    const layout = layoutOf({
      model: { kind: 'gpt', layers, dim, heads, seq, vocab },
      gpus,
      nicGbit: 200,
      parallel: { tp, pp, strategy: 'NO_SHARD' },
      batch: { global, micro },
      virtualStages,
      ...MEGATRON,
    });
    const flops = 96 * global * seq * layers * dim ** 2 * (1 + seq / (6 * dim) + vocab / (16 * layers * dim));
    return { source: 'megatron2021', layout, seconds: flops / gpus / (tflops * 1e12), heldOut: false };
  });
}

const MEGATRON = {
  hardware: 'A100-80G',
  precision: 'fp16',
  recompute: 'full',
  attention: 'unfused',
} as const;

/** Every other one of a seeded shuffle. */
function halfOf(count: number): ReadonlySet<number> {
  const random = seeded(2021, 'held out');
  const keys = Array.from({ length: count }, (_, index) => ({ index, key: random.uniform() }));
  return new Set(
    keys
      .sort((a, b) => a.key - b.key)
      .slice(Math.floor(count / 2))
      .map(({ index }) => index),
  );
}

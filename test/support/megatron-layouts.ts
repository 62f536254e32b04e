import type { Layout } from '../../src/planner/layout';
import type { MeasuredLayout } from '../../src/planner/measured/judged-runs';
import megatron from '../data/megatron2021-table1.json';
import { layoutOfLine } from './batch-lines';

/**
 * 10 weak-scaling runs of Megatron-LM on A100-80G with 8 x 200 Gbit/s a node. The table states TFLOP/s a GPU by the paper's
 * own count, from which the iteration's time follows. Source: Narayanan et al. 2021, table 1 and equation 3.
 */
export function megatronLayouts(): MeasuredLayout[] {
  return megatron.rows.map((row) => {
    const [
      ,
      heads,
      dim = 0,
      layers = 0,
      tp,
      pp,
      gpus = 0,
      global = 0,
      seq = 0,
      vocab = 0,
      micro,
      virtualStages,
      tflops = 0,
    ] = row;
    const layout = layoutOfLine({
      model: { kind: 'gpt', layers, dim, heads, seq, vocab },
      gpus,
      nicGbit: 200,
      parallel: { tp, pp, strategy: 'NO_SHARD' },
      batch: { global, micro },
      virtualStages,
      ...{ stack: 'megatron', hardware: 'A100-80G', precision: 'fp16', attention: 'unfused' },
      recompute: 'full',
    });
    return { layout, seconds: secondsAtTflops(layout, tflops), heldOut: false };
  });
}

/** Returns the time of an iteration at a number of TFLOP/s per GPU, as the paper counts them. */
export function secondsAtTflops({ model, globalBatch, gpus }: Layout, tflops: number): number {
  const { layers, dim, seq, vocab } = model;
  const flops =
    96 * globalBatch * seq * layers * dim ** 2 * (1 + seq / (6 * dim) + vocab / (16 * layers * dim));
  return flops / gpus / (tflops * 1e12);
}

import type { Layout } from '../../src/planner/layout';
import type { Prediction } from '../../src/planner/prediction';

/** A made-up prediction by simple rules, so that a test knows which layout must win. */
export function toyPredict(layout: Layout): Prediction {
  const { model, gpus, globalBatch, pp, tp, numMicroBatches, virtualStages, shards, recompute, hardware } =
    layout;
  const flops = 6 * model.params * globalBatch * model.seq;
  const redone = { none: 1, selective: 1.1, full: 4 / 3 }[recompute];
  const compute = (redone * flops) / (gpus * hardware.gemmTflops * 1e12 * 0.5);
  const bubble = (compute * (pp - 1)) / (virtualStages * numMicroBatches);
  const exposedComm = compute * (0.05 * Math.log2(tp) + (tp > hardware.gpusPerNode ? 1 : 0));
  const sharded = { NO_SHARD: 1, ZERO_1: 1 }[layout.strategy as string] ?? shards;
  const states = (16 * model.params) / (tp * pp * sharded);
  const activations =
    (layout.microBatch *
      model.seq *
      model.dim *
      model.layers *
      { none: 34, selective: 10, full: 2 }[recompute]) /
    (tp * layout.cp);
  const seconds = compute + bubble + exposedComm;
  const peak = states + activations;
  const estimate = (value: number): Prediction['seconds'] => ({
    value,
    low: 0.95 * value,
    high: 1.05 * value,
  });
  return {
    time: {
      seconds,
      compute,
      exposedComm,
      bubble,
      computeByCause: { products: compute, attention: 0, elementwise: 0, loss: 0, optimizer: 0, launch: 0 },
      commBytes: { dp: 1e9, tp: 2e9, pp: 0, cp: 0, ep: 0 },
      modelFlopsPerGpu: flops / gpus,
    },
    seconds: estimate(seconds),
    tokensPerSecondPerGpu: (globalBatch * model.seq) / seconds / gpus,
    modelTflopsPerGpu: flops / gpus / seconds / 1e12,
    mfu: flops / gpus / seconds / 1e12 / hardware.tflops,
    memory: {
      peak: estimate(peak / 2 ** 30),
      peakBytes: peak,
      params: states / 8,
      grads: states / 8,
      optimizer: (6 * states) / 8,
      activations,
      temporary: 0,
      phase: 'backward',
      stage: 0,
      largestAssumption: 'toy memory',
    },
    fits: peak < hardware.memoryGB * 1e9,
    largestAssumption: 'toy time',
    outside: [],
  };
}

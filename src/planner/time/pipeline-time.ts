import type { Seconds } from '../../core';

/** The times of a pipeline's stages for one microbatch, and its schedule. */
export interface Pipeline {
  readonly stages: readonly { readonly forward: Seconds; readonly backward: Seconds }[];
  readonly numMicroBatches: number;
  readonly virtualStages: number;
  /** Time of one transfer between neighbouring stages. */
  readonly hop: Seconds;
  /** Whether a stage waits for each transfer, instead of computing at the same time. */
  readonly waits: boolean;
}

/**
 * Returns the time from the first forward to the last backward: the time of all microbatches on the slowest stage, plus 1/v of
 * the time of one microbatch on the other stages (v: the number of virtual stages). 1F1B and GPipe take the same time.
 * Source: Narayanan et al. 2021, section 2.2, for equal stages; if stages differ, the slowest decides, and fill and drain
 * pass through all stages.
 */
export function pipelineTime(pipeline: Pipeline): { readonly seconds: Seconds; readonly handOvers: Seconds } {
  const { stages, numMicroBatches: m, virtualStages: v, hop, waits } = pipeline;
  const times = stages.map(({ forward, backward }) => forward + backward);
  const slowest = Math.max(...times);
  if (stages.length === 1) return { seconds: m * slowest, handOvers: 0 };
  const sum = times.reduce((total, each) => total + each, 0);
  const wires = 2 * hop * v;
  // If transfers overlap with compute, a stage waits only for the time by which they are longer than compute.
  const handOvers = m * (waits ? wires : Math.max(0, wires - slowest));
  const fill = (sum - slowest) / v + 2 * (stages.length - 1) * hop;
  return { seconds: m * slowest + handOvers + fill, handOvers };
}

import type { Seconds } from '../../core/units';

/** What a pipeline's stages take for one microbatch, and how they take turns. */
export interface Pipeline {
  readonly stages: readonly { readonly forward: Seconds; readonly backward: Seconds }[];
  readonly numMicroBatches: number;
  readonly virtualStages: number;
  /** Of one hand-over between neighbours. */
  readonly hop: Seconds;
  /** Whether a stage stands still for each hand-over, rather than computing beside it. */
  readonly waits: boolean;
}

/**
 * Time from the first forward to the last backward: the slowest stage's microbatches, and once the other stages' own, over
 * as many parts as each has. 1F1B and GPipe take the same. Source: Narayanan et al. 2021, section 2.2, for stages of equal
 * length; the longest of unequal ones sets the pace, and fill and drain pass through all of them.
 */
export function pipelineTime(pipeline: Pipeline): { readonly seconds: Seconds; readonly handOvers: Seconds } {
  const { stages, numMicroBatches: m, virtualStages: v, hop, waits } = pipeline;
  const times = stages.map(({ forward, backward }) => forward + backward);
  const slowest = Math.max(...times);
  if (stages.length === 1) return { seconds: m * slowest, handOvers: 0 };
  const sum = times.reduce((total, each) => total + each, 0);
  const wires = 2 * hop * v;
  // Beside compute, hand-overs are waited for as far as they take longer.
  const handOvers = m * (waits ? wires : Math.max(0, wires - slowest));
  const fill = (sum - slowest) / v + 2 * (stages.length - 1) * hop;
  return { seconds: m * slowest + handOvers + fill, handOvers };
}

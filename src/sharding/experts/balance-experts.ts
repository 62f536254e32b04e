import { mean } from '../../core';
import * as tf from '../../core/tf';
import { readValues } from '../../engine';
import { type MixtureOfExperts, type Module, mixturesIn, type RankLoad, requireModule } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { isElsewhere } from '../pipeline/state-elsewhere';

/** A rank's loads of all layers with experts, by the layer's name. */
export type ExpertLoads = Readonly<Record<string, RankLoad>>;

/**
 * Updates the biases of routers with a `biasUpdateRate`. If the router has sent an expert more tokens than the experts' mean
 * since the last call, the expert's bias becomes smaller by the rate; if it has sent fewer, the bias becomes larger by the rate.
 * The counts include dropped tokens, and the tokens of all ranks of `group` (`parallel.dpCp`), which have different batches or
 * different parts of sequences. Call this function after each optimizer.step. Returns this rank's own loads since the last call.
 * Source: Wang et al. 2024, "Auxiliary-loss-free load balancing", algorithm 1; DeepSeek-V3.
 */
export function balanceExperts(model: Module, group: ProcessGroup): ExpertLoads {
  const mixtures = mixturesIn(requireModule('balanceExperts', model));
  const loads = mixtures.map((mixture) => mixture.takeLoad());
  const biased = mixtures.flatMap((mixture, i) => {
    const { tokens = [], dropped = [] } = loads[i] ?? {};
    if (mixture.expertBias === null || isElsewhere(mixture.expertBias)) return [];
    return [{ mixture, chosen: tokens.map((count, expert) => count + (dropped[expert] ?? 0)) }];
  });
  if (biased.length > 0) {
    const totals = sumCounts(
      biased.flatMap(({ chosen }) => chosen),
      group,
    );
    let end = 0;
    for (const { mixture, chosen } of biased) {
      end += chosen.length;
      update(mixture, totals.slice(end - chosen.length, end));
    }
  }
  return Object.fromEntries(mixtures.map(({ path }, i) => [path, loads[i] as RankLoad])); // one list of counts per mixture
}

/** Adds up counts over the ranks of a group. */
export function sumCounts(counts: readonly number[], group: ProcessGroup): number[] {
  const tensor = tf.tensor1d([...counts], 'int32');
  try {
    group.allReduce(tensor, 'sum', { cause: 'control' }).wait();
    // A dry run assumes that the other ranks have the same counts.
    return [...readValues(tensor, () => Int32Array.from(counts, (count) => count * group.size))];
  } finally {
    tensor.dispose();
  }
}

function update({ expertBias, options }: MixtureOfExperts, counts: readonly number[]): void {
  const even = mean(counts);
  const changes = tf.tensor1d(counts.map((count) => options.biasUpdateRate * Math.sign(even - count)));
  expertBias?.update((bias) => tf.add(bias, changes));
  changes.dispose();
}

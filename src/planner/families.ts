import type { Planned } from './cost-of';
import type { Layout } from './layout';
import { reservableBytes } from './memory/allocator';
import type { Estimate } from './prediction';
import { strategyWord } from './stack-rules';

/**
 * Returns a layout's family: its strategy with TP and PP ('FSDP + TP', 'distributed optimizer + TP + PP'). Three features are
 * families by themselves, with any strategy: offload to CPU memory, context parallelism, and TP across nodes.
 */
export function familyOf(layout: Layout): string {
  const { dp, tp, pp, cp, hardware, offload } = layout;
  if (offload.optimizer || offload.parameters) return 'offload to the host';
  if (tp > hardware.gpusPerNode) return 'TP across nodes';
  if (cp > 1) return 'context parallel';
  const axes = [...(tp > 1 ? ['TP'] : []), ...(pp > 1 ? ['PP'] : [])];
  const alone = dp === 1 && axes.length > 0;
  return [...(alone ? [] : [strategyWord(layout)]), ...axes].join(' + ');
}

/** The best layout of a family, and why this layout is behind the winner. */
export interface Loss {
  readonly family: string;
  readonly best: Planned;
  /** The number of the family's candidates, and the number of those that fit. */
  readonly tried: number;
  readonly fitting: number;
  /**
   * Such as 'does not fit: needs 2.1x the memory, 63% of it for optimizer states', or '1.3x slower: more bubble (41% of this
   * layout's time)'.
   */
  readonly why: string;
  /** The assumption that decides which layout is faster, if each layout's time is within the other's interval. */
  readonly undecided?: string | undefined;
}

/** A measure by which candidates are compared; less is better. */
export interface Measure {
  /** The word that follows a ratio such as 1.3x, for example 'slower'. */
  readonly worse: string;
  /** Layouts are in the order of `high`, which nine in ten runs stay below. */
  of(planned: Planned): Estimate;
}

/** Returns why the family's best layout is behind `winner`, with the cause that needs most extra time. */
export function lossOf(
  family: Omit<Loss, 'why' | 'undecided'>,
  winner: Planned | undefined,
  measure: Measure,
): Loss {
  const { best } = family;
  if (!best.prediction.fits) return { ...family, why: `does not fit: ${overfull(best)}` };
  if (winner === undefined || family.fitting === 0)
    return { ...family, why: 'fits, but the training takes longer than the time limit' };
  const undecided = overlaps(best, winner) ? best.prediction.largestAssumption : undefined;
  const [own, first] = [measure.of(best), measure.of(winner)];
  const ratio = own.value / first.value;
  if (ratio < 0.995) {
    const less = Math.round(100 * (1 - ratio));
    const higher = (own.high / first.high).toFixed(2);
    return {
      ...family,
      why: `predicted to need ${less}% less, but less certain: its interval ends ${higher}x as high`,
      undecided,
    };
  }
  if (ratio < 1.005) return { ...family, why: 'as good as the best, within 0.5%', undecided };
  const cause = largestCause(best, winner);
  return {
    ...family,
    why: `${ratio.toFixed(ratio < 1.095 ? 2 : 1)}x ${measure.worse}${cause === undefined ? '' : `: ${cause}`}`,
    undecided,
  };
}

function overfull({ layout, prediction }: Planned): string {
  const ratio = prediction.memory.peakBytes / reservableBytes(layout);
  return `needs ${ratio.toFixed(ratio < 1.095 ? 2 : 1)}x the memory, ${largestState(prediction.memory)}`;
}

function largestState(memory: Planned['prediction']['memory']): string {
  const parts: readonly (readonly [string, number])[] = [
    ['parameters', memory.params],
    ['gradients', memory.grads],
    ['optimizer states', memory.optimizer],
    ['activations', memory.activations],
    ['temporaries', memory.temporary],
  ];
  const [name, bytes] = parts.reduce((most, part) => (part[1] > most[1] ? part : most));
  return `${Math.round((100 * bytes) / memory.peakBytes)}% of it for ${name}`;
}

/** Returns the cause on which the loser needs most extra time, with the cause's share of the loser's iteration. */
function largestCause(loser: Planned, winner: Planned): string | undefined {
  const [a, b] = [loser.prediction.time, winner.prediction.time];
  const scale = winner.layout.globalBatch / loser.layout.globalBatch;
  const words = {
    bubble: 'bubble',
    exposedComm: 'exposed communication',
    compute: computeWord(loser, winner),
  };
  const parts = (['bubble', 'exposedComm', 'compute'] as const)
    .map((part) => ({ extra: a[part] * scale - b[part], share: a[part] / a.seconds, word: words[part] }))
    .sort((x, y) => y.extra - x.extra);
  const [first] = parts;
  if (first === undefined || first.extra <= 0) return undefined;
  return `more ${first.word} (${Math.round(100 * first.share)}% of this layout's time)`;
}

function computeWord(loser: Planned, winner: Planned): string {
  const { recompute } = loser.layout;
  if (recompute !== 'none' && recompute !== winner.layout.recompute)
    return `compute with ${recompute} recompute`;
  if (loser.layout.tp > winner.layout.tp) return `compute in matmuls under tp ${loser.layout.tp}`;
  if (loser.layout.microBatch < winner.layout.microBatch) {
    return `compute at microbatch ${loser.layout.microBatch}`;
  }
  return 'compute';
}

/** Whether each time is within the other's interval, so that either layout may be faster. */
function overlaps({ prediction: a }: Planned, { prediction: b }: Planned): boolean {
  return a.seconds.low < b.seconds.value && a.seconds.value < b.seconds.high;
}

import type { Estimate, Prediction } from '../../prediction';

/**
 * How much faster one layout is than another, in percent of samples a second. What both compute is the same and cancels; the
 * bounds are those of overlap: communication that shows not at all on one side, and twice as much as predicted on the other.
 */
export function percentFaster(one: Prediction, other: Prediction): Estimate {
  const [mine, its] = [speedsOf(one), speedsOf(other)];
  return {
    value: 100 * (mine.value / its.value - 1),
    low: 100 * (mine.low / its.high - 1),
    high: 100 * (mine.high / its.low - 1),
  };
}

/** The same where both sides overlap alike: a layout and itself with other settings of the same strategy. */
export function percentFasterAlike(one: Prediction, other: Prediction): Estimate {
  const [mine, its] = [speedsOf(one), speedsOf(other)];
  const faster = (at: 'value' | 'low' | 'high'): number => 100 * (mine[at] / its[at] - 1);
  const [value, hidden, shown] = [faster('value'), faster('high'), faster('low')];
  return { value, low: Math.min(value, hidden, shown), high: Math.max(value, hidden, shown) };
}

/** The figure of a plan that is compared. */
export const SPEED = 'tokensPerSecondPerGpu';

/** Tokens per second and GPU. */
function speedsOf({ tokensPerSecondPerGpu, time }: Prediction): Estimate {
  const { seconds, exposedComm } = time;
  const at = (exposed: number): number =>
    (tokensPerSecondPerGpu * seconds) / (seconds + exposed - exposedComm);
  return { value: tokensPerSecondPerGpu, low: at(2 * exposedComm), high: at(0) };
}

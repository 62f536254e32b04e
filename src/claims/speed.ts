import type { Estimate, Prediction } from '../planner';

/**
 * Returns by how many percent a layout is faster than a base, in tokens per second per GPU. Both layouts compute the same, so the
 * bounds depend only on overlap. At each bound, one layout's communication is hidden completely, and the other layout waits twice
 * as long as predicted.
 */
export function percentFaster(layout: Prediction, base: Prediction): Estimate {
  const [mine, its] = [speedsOf(layout), speedsOf(base)];
  return {
    value: 100 * (mine.value / its.value - 1),
    low: 100 * (mine.low / its.high - 1),
    high: 100 * (mine.high / its.low - 1),
  };
}

/** Returns `percentFaster` for two layouts that hide the same share of communication, as two settings of one strategy do. */
export function percentFasterAlike(layout: Prediction, base: Prediction): Estimate {
  const [mine, its] = [speedsOf(layout), speedsOf(base)];
  const faster = (at: 'value' | 'low' | 'high'): number => 100 * (mine[at] / its[at] - 1);
  const [value, hidden, shown] = [faster('value'), faster('high'), faster('low')];
  return { value, low: Math.min(value, hidden, shown), high: Math.max(value, hidden, shown) };
}

/** The figure by which the speeds of plans are compared. */
export const SPEED = 'tokensPerSecondPerGpu';

/** Returns tokens per second per GPU. */
function speedsOf({ tokensPerSecondPerGpu, time }: Prediction): Estimate {
  const { seconds, exposedComm } = time;
  const at = (exposed: number): number =>
    (tokensPerSecondPerGpu * seconds) / (seconds + exposed - exposedComm);
  return { value: tokensPerSecondPerGpu, low: at(2 * exposedComm), high: at(0) };
}

import type { Seconds } from '../../core/units';
import { type Shown, shownAsText, withShown } from '../../figures/shown';
import type { StepResult } from '../../train/step-result';

/** The summary of some steps. Shown in a notebook as one line. */
export interface RunSummary extends Shown {
  readonly numSteps: number;
  /** Number of the last step, from 1. */
  readonly lastStep: number;
  readonly firstLoss: number;
  readonly lastLoss: number;
  /** Tokens per second of all ranks, over the time of the steps. */
  readonly tokensPerSecond: number;
  /** Median time of a step. */
  readonly stepSeconds: Seconds;
}

/** Sums up at least one step. */
export function createRunSummary(results: readonly StepResult[]): RunSummary {
  const seconds = results.map((result) => result.seconds).sort((a, b) => a - b);
  const total = seconds.reduce((sum, one) => sum + one, 0);
  const tokens = results.reduce((sum, result) => sum + result.tokens, 0);
  const facts = {
    numSteps: results.length,
    lastStep: results.at(-1)?.step ?? 0,
    firstLoss: results[0]?.loss ?? Number.NaN,
    lastLoss: results.at(-1)?.loss ?? Number.NaN,
    tokensPerSecond: tokens / total,
    stepSeconds: seconds[Math.floor(seconds.length / 2)] ?? Number.NaN,
  };
  const { lastStep, firstLoss, lastLoss, stepSeconds } = facts;
  const before = firstLoss === lastLoss ? '' : `${firstLoss.toFixed(4)} → `;
  const speed = Math.round(facts.tokensPerSecond).toLocaleString('en-US');
  const time = `${speed} tokens/s, ${(stepSeconds * 1e3).toFixed(1)} ms per step`;
  return withShown(facts, shownAsText(`step ${lastStep}: loss ${before}${lastLoss.toFixed(4)}, ${time}`));
}

import { ConfigError } from '../core/errors';
import { compareComm } from './compare-comm';
import { compareTimeline } from './compare-timeline';
import type { Figure } from './figure';
import { lossCurve } from './loss-curve';
import { compareMemory } from './memory-compare';
import { compareMemoryTimeline } from './memory-multiples';
import { lossesOf, type RunView } from './run-view';

const COMPARISONS = {
  memory: compareMemory,
  memoryTimeline: compareMemoryTimeline,
  timeline: compareTimeline,
  comm: compareComm,
  loss: (runs: Readonly<Record<string, RunView>>): Figure =>
    lossCurve(Object.entries(runs).map(([name, run]) => ({ name, ...lossesOf(run) }))),
} as const;

export type Comparison = keyof typeof COMPARISONS;

/** Runs side by side in one figure. Throws: CONFIG for a comparison that does not exist. */
export function compareRuns(runs: Readonly<Record<string, RunView>>, what: Comparison): Figure {
  const draw = Object.hasOwn(COMPARISONS, what) ? COMPARISONS[what] : undefined;
  if (draw === undefined) {
    const known = Object.keys(COMPARISONS).join("', '");
    throw new ConfigError(`cannot compare '${String(what)}'; what can be compared: '${known}'`);
  }
  return draw(runs);
}

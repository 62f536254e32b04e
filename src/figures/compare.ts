import { ConfigError, shown } from '../core';
import { compareComm } from './comm-causes';
import { compareTimeline } from './comm-timeline';
import type { Figure } from './figure';
import { lossCurve } from './loss-curve';
import { compareMemory } from './memory-compare';
import { compareMemoryTimeline } from './memory-timeline';
import { lossesOf } from './run-view';
import type { Runs } from './runs';

const COMPARISONS = {
  memory: compareMemory,
  memoryTimeline: compareMemoryTimeline,
  timeline: compareTimeline,
  comm: compareComm,
  loss: (runs: Runs): Figure =>
    lossCurve(
      Object.entries(runs).map(([name, run]) => ({
        name,
        hasOwnLoss: run.hasOwnLoss ?? false,
        ...lossesOf(run),
      })),
    ),
} as const;

export type Comparison = keyof typeof COMPARISONS;

/** Draws runs side by side in one figure. Throws: CONFIG for a comparison that does not exist. */
export function compareRuns(runs: Runs, what: Comparison): Figure {
  if (Object.hasOwn(COMPARISONS, what)) return COMPARISONS[what](runs);
  const known = Object.keys(COMPARISONS).join("', '");
  throw new ConfigError(`cannot compare ${shown(what)}; choose one of '${known}'`);
}

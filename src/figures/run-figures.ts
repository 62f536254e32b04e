import { ConfigError, shown } from '../core';
import { commCauses, compareComm } from './comm-causes';
import { commTimeline, compareTimeline } from './comm-timeline';
import { expertLoads } from './expert-loads';
import type { Figure } from './figure';
import { hangLanes } from './hang-lanes';
import { lossCurve } from './loss-curve';
import { compareMemory } from './memory-compare';
import { memoryFigure } from './memory-figure';
import { compareMemoryTimeline } from './memory-timeline';
import { pipelineGantt } from './pipeline-gantt';
import { livePlayer } from './player/live-player';
import { describePoint, describePosition } from './player/point-words';
import { processTable } from './process-table';
import { lossesOf } from './run-view';
import type { Runs } from './runs';
import { compareTime } from './time-compare';
import { trafficMatrix } from './traffic-matrix';

/** The figures of one run, by their subject. */
export const runFigures = {
  comm: commCauses,
  experts: expertLoads,
  hang: hangLanes,
  loss: lossCurve,
  memory: memoryFigure,
  pipeline: pipelineGantt,
  processes: processTable,
  timeline: commTimeline,
  traffic: trafficMatrix,
  /** The player of a walk, and the words for what it shows. */
  walk: { player: livePlayer, describePoint, describePosition },
} as const;

/** The figures that show several runs beside each other, by their subject. */
const COMPARISONS = {
  memory: compareMemory,
  memoryTimeline: compareMemoryTimeline,
  timeline: compareTimeline,
  comm: compareComm,
  time: compareTime,
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

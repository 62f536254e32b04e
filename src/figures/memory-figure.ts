import { ConfigError } from '../core';
import type { Figure } from './figure';
import { memoryRanks } from './memory-ranks';
import { memorySpaces, memoryTimeline } from './memory-timeline';
import type { RunView } from './run-view';

/** Options of `run.memory()`. */
export interface MemoryOptions {
  /** 'time' draws one rank over one step; 'ranks' (default) draws every rank at the rank's own peak. */
  readonly over?: 'time' | 'ranks';
  /** 'both' draws the device above the host, over time. Default 'device'. */
  readonly space?: 'device' | 'both';
  /** The rank that 'time' draws; if it is given, the default of `over` is 'time'. Default: the rank with the highest peak. */
  readonly rank?: number;
  /** The step to show. Default: for 'time', the most typical of the last steps; for 'ranks', the last step. */
  readonly step?: number;
}

/** Draws a run's memory, for `run.memory()`. Throws: CONFIG for 'ranks' with 'both'. */
export function memoryFigure(run: RunView, { over, space, rank, step }: MemoryOptions = {}): Figure {
  if (space === 'both' && over === 'ranks') {
    throw new ConfigError("over: 'ranks' shows only the device; with space: 'both', set over: 'time'");
  }
  if (space === 'both') return memorySpaces(run, { rank, step });
  const isOverTime = over === 'time' || (over === undefined && rank !== undefined);
  return isOverTime ? memoryTimeline(run, { rank, step }) : memoryRanks(run, step);
}

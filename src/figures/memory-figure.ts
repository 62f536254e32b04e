import { ConfigError } from '../core/errors';
import type { Figure } from './figure';
import { memorySpaces } from './memory-multiples';
import { memoryRanks } from './memory-ranks';
import { memoryTimeline } from './memory-timeline';
import type { RunView } from './run-view';

/** What `run.memory()` shows. */
export interface MemoryOptions {
  /** 'time': one rank over one step. 'ranks' (default): every rank at its own peak. */
  readonly over?: 'time' | 'ranks';
  /** 'both': the device over the host, over time. Default 'device'. */
  readonly space?: 'device' | 'both';
  /** The rank that is shown over time; naming one means over: 'time'. Default: the one with the highest peak. */
  readonly rank?: number;
  /** Default: over time, the most typical of the last steps; over ranks, the last step. */
  readonly step?: number;
}

/** A run's memory, as run.memory() shows it. Throws: CONFIG for another `over` or `space`. */
export function memoryFigure(run: RunView, { over, space, rank, step }: MemoryOptions = {}): Figure {
  if (over !== undefined && over !== 'time' && over !== 'ranks') {
    throw new ConfigError(`memory has no figure over '${String(over)}'; it has 'time' and 'ranks'`);
  }
  if (space !== undefined && space !== 'device' && space !== 'both') {
    throw new ConfigError(`memory has no figure of space '${String(space)}'; it has 'device' and 'both'`);
  }
  if (space === 'both' && over === 'ranks') {
    throw new ConfigError("memory over 'ranks' shows the device; for space 'both' take over: 'time'");
  }
  if (space === 'both') return memorySpaces(run, { rank, step });
  const isOverTime = over === 'time' || (over === undefined && rank !== undefined);
  return isOverTime ? memoryTimeline(run, { rank, step }) : memoryRanks(run, step);
}

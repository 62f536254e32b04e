import { ConfigError } from '../core/errors';
import type { Figure } from './figure';
import { memoryRanks } from './memory-ranks';
import { memoryTimeline } from './memory-timeline';
import type { RunView } from './run-view';

export interface MemoryOptions {
  /** 'time': one rank over one step. 'ranks' (default): every rank at its own peak. */
  readonly over?: 'time' | 'ranks';
  /** The rank that is shown over time; naming one means over: 'time'. Default: the one with the highest peak. */
  readonly rank?: number;
  /** Default: the last step that was kept. */
  readonly step?: number;
}

/** A run's memory, as run.memory() shows it. Throws: CONFIG for another `over`. */
export function memoryFigure(run: RunView, { over, rank, step }: MemoryOptions = {}): Figure {
  if (over !== undefined && over !== 'time' && over !== 'ranks') {
    throw new ConfigError(`memory has no figure over '${String(over)}'; it has 'time' and 'ranks'`);
  }
  const chosen = step === undefined ? {} : { step };
  if (over === 'time' || (over === undefined && rank !== undefined)) {
    return memoryTimeline(run, rank === undefined ? chosen : { ...chosen, rank });
  }
  return memoryRanks(run, chosen);
}

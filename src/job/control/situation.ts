import type { CollectiveOp } from '../../core/events';
import type { Seconds } from '../../core/units';

/** A collective in which a rank's main thread stands. */
export interface WaitingIn {
  readonly op: CollectiveOp | 'subgroup';
  readonly group: string;
  /** Global ranks that take part in it, or the two of a send. */
  readonly ranks: readonly number[];
  /** Number of the collective in its group, from 1. */
  readonly number: number;
  readonly module: string;
  readonly cell: number | undefined;
  readonly line: number | undefined;
}

/** What a rank's main thread does at one moment, as its courier sees it. */
export interface Situation {
  readonly state: 'idle' | 'running' | 'waiting';
  /** The cell that it runs, where it runs one. */
  readonly cell: number | undefined;
  /** When this state began. */
  readonly since: Seconds;
  readonly waiting: WaitingIn | undefined;
  /** Whether its comm thread is in a collective. */
  readonly hasBackground: boolean;
  /** The collectives that this rank's threads are in now: their numbers by group. */
  readonly lastCalled: Readonly<Record<string, number>>;
}

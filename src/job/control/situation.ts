import type { CollectiveOp } from '../../core/events';
import type { Seconds } from '../../core/units';

/** A collective in which a rank's main thread waits. */
export interface WaitingIn {
  readonly op: CollectiveOp | 'subgroup';
  readonly group: string;
  /** Global ranks of the collective, or the two ranks of a send. */
  readonly ranks: readonly number[];
  /** Number of the collective in its group, from 1. */
  readonly number: number;
  readonly module: string;
  readonly cell: number | undefined;
  readonly line: number | undefined;
}

/** The state of a rank's main thread at one moment, as its courier sees it. */
export interface Situation {
  readonly state: 'idle' | 'running' | 'waiting';
  /** The running cell, if there is one. */
  readonly cell: number | undefined;
  /** When this state began. */
  readonly since: Seconds;
  readonly waiting: WaitingIn | undefined;
  /** Whether the rank's comm thread is in a collective. */
  readonly hasBackground: boolean;
  /** Numbers of the collectives in which this rank's threads are now, by group. */
  readonly lastCalled: Readonly<Record<string, number>>;
}

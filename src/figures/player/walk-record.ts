import type { Bytes, MemoryCause, StepPoint } from '../../core';

/** A place in source code, with the lines around it. */
export interface SourcePlace {
  /** Such as "cell 8, line 3", or a file of the library with its line. */
  readonly title: string;
  readonly lines: readonly string[];
  /** The index of the place's line in `lines`. */
  readonly at: number;
}

/** A point of a step that a rank reached, before it passed the point. */
export interface WalkedPoint {
  readonly point: StepPoint;
  /** Bytes on the rank's device, in the order of the record's `causes`. */
  readonly bytes: readonly Bytes[];
  /** Index in the record's `places`; null if no place is known. */
  readonly place: number | null;
}

/** Where a rank stands in one round of a walk. */
export interface WalkPosition {
  /** The number of points that the rank has reached; the last of them is the one before which it stands. */
  readonly numReached: number;
  /** 'halted': stands before its last point. 'waiting': passed it, and waits within it for other ranks. 'ended': no more points come. */
  readonly state: 'halted' | 'waiting' | 'ended';
  /** The ranks for which it waits. */
  readonly waitsFor: readonly number[];
}

/** A walk over a step, which a player shows without ranks. */
export interface WalkRecord {
  /** The run or the cell, and the step. */
  readonly title: string;
  readonly causes: readonly MemoryCause[];
  /** The full names of the modules that points name, in the order of their first appearance; '' is the whole model. */
  readonly modules: readonly string[];
  readonly places: readonly SourcePlace[];
  /** For each rank, its points in order. */
  readonly points: readonly (readonly WalkedPoint[])[];
  /** For each round (each `next()`), the positions of all ranks. */
  readonly rounds: readonly (readonly WalkPosition[])[];
}

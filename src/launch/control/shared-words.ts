/** The name of the slot with the main thread's function that returns a `Look` as JSON. */
export const LOOK_NAME = 'shardlab.look';

/** Indices of the words in the memory that main thread and courier share. */
export const SHARED_WORDS = {
  /** Number of the last work that the main thread has ended. */
  ended: 0,
  /** 1 once the courier has closed its link. */
  closed: 1,
  /** Number of the work whose interrupt the main thread has noticed. */
  heard: 2,
  /** Number of the work that must end where its next operation begins; [Note: interrupted operations]. */
  interrupted: 3,
  /** `granted` is the number of steps that the running call may run; `isFinal` is 1 once this number is final. */
  granted: 4,
  isFinal: 5,
  /** The number of points that walked work may pass, at most MANY_PASSES; [Note: walks]. */
  passes: 6,
  /** 1 while the main thread is halted before a point. */
  halted: 7,
  length: 8,
} as const;

/** The value of `passes` with which no work halts. */
export const MANY_PASSES = 2 ** 31 - 1;

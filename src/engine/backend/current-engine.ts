import * as tf from '../../core/tf';
import type { Engine } from './engine';

/** The next random numbers of a random layer depend on these numbers, the model's seed and the layer's name. */
export interface Draws {
  /** The data-parallel rank of this process. */
  rank: number;
  /** The number of passes (forwards that are recorded for a backward) that have begun. */
  pass: number;
  /** The number of draws since the pass began. */
  next: number;
}

const ENGINE = Symbol('the engine of a tfjs backend');
const DRAWS = Symbol('the draws on a tfjs backend');

interface Marked {
  [ENGINE]?: Engine;
  [DRAWS]?: Draws;
}

/** Stores in a backend of tfjs which engine uses this backend. */
export function markEngine(backend: object, engine: Engine): void {
  (backend as Marked)[ENGINE] = engine;
}

/**
 * Returns the engine of tfjs's current backend; null if no engine computes on it (outside of a rank, tfjs's own backends
 * compute).
 */
export function currentEngine(): Engine | null {
  return currentBackend()[ENGINE] ?? null;
}

/** Returns the draws of tfjs's current backend, which the caller may advance. */
export function currentDraws(): Draws {
  const backend = currentBackend();
  backend[DRAWS] ??= { rank: 0, pass: 0, next: 0 };
  return backend[DRAWS];
}

/** Begins a pass: random layers draw other numbers than in the pass before. */
export function beginPass(): void {
  const draws = currentDraws();
  draws.pass++;
  draws.next = 0;
}

/**
 * Runs `work` with the draws that began at `start`, so that random layers draw the same numbers again; then restores the draws.
 */
export function drawingAgain<T>(start: Draws, work: () => T): T {
  const draws = currentDraws();
  const before = { ...draws };
  Object.assign(draws, start);
  try {
    return work();
  } finally {
    Object.assign(draws, before);
  }
}

function currentBackend(): Marked {
  return tf.backend() as Marked; // a backend is an object, which may have further members
}

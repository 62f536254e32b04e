import { type Bytes, MEMORY_CAUSES, now, type Seconds, type StepPoint } from '../../core';
import type { Interrupts } from '../../engine';
import type { Recorder } from '../../ledger';
import type { CourierHandle } from '../control/courier-handle';
import type { PlaceFinder } from './find-place';

/** The points that units, regions and passes report; a root unit in a cell's pass would give the same point twice. */
const PHASES: ReadonlySet<StepPoint['name']> = new Set(['forward', 'backward', 'recompute']);

export interface WalkerParts {
  readonly courier: Pick<CourierHandle, 'send' | 'mayPass'>;
  readonly recorder: Pick<Recorder, 'points' | 'liveBytes'>;
  readonly interrupts: Interrupts;
  readonly places: PlaceFinder;
}

/**
 * Halts the main thread before each point of a walked work until the launcher lets it pass.
 *
 * [Note: walks] The launcher counts, for each rank, the points that the rank may pass; the courier writes this number into memory that it
 * shares with the main thread, as it does for grants. A halted main thread does nothing else, but its comm thread continues, so a
 * collective that was posted before still ends. While nobody listens to points, they cost nothing.
 */
export class Walker {
  readonly #parts: WalkerParts;
  #id = 0;
  #numReached = 0;
  #lastPhase = '';
  #haltedSeconds: Seconds = 0;
  /** Ends the listening to points. */
  #forget: () => void = () => undefined;

  constructor(parts: WalkerParts) {
    this.#parts = parts;
  }

  /** Whether the running work is walked. Its times contain the halts, so its steps get no records. */
  get isWalking(): boolean {
    return this.#id !== 0;
  }

  /** How long the main thread was halted since `begin`. */
  get haltedSeconds(): Seconds {
    return this.#haltedSeconds;
  }

  /** Begins to halt work `id`. */
  begin(id: number): void {
    this.#id = id;
    this.#numReached = 0;
    this.#lastPhase = '';
    this.#haltedSeconds = 0;
    this.#forget = this.#parts.recorder.points.add((point) => this.#reach(point));
  }

  /** Ends the walk; has no effect if the work is not walked. */
  end(): void {
    this.#id = 0;
    this.#forget();
    this.#forget = () => undefined;
  }

  #reach(point: StepPoint): undefined {
    if (this.#isAgain(point)) return undefined;
    const { courier, recorder, interrupts, places } = this.#parts;
    const live = recorder.liveBytes();
    const bytes: Bytes[] = MEMORY_CAUSES.map((cause) => live[cause]);
    courier.send({ type: 'reached', id: this.#id, reached: { point, bytes, place: places.find() } });
    const index = this.#numReached++;
    const start = now();
    try {
      while (!courier.mayPass(index)) interrupts.check();
    } finally {
      this.#haltedSeconds += now() - start;
    }
    return undefined;
  }

  /** Whether the point names the phase that has just begun: a cell's pass and its root unit, or a region and its unit. */
  #isAgain({ name, module, pipeline }: StepPoint): boolean {
    if (!PHASES.has(name)) return false;
    const phase = `${name} ${module}`;
    const isAgain = phase === this.#lastPhase && pipeline === undefined;
    this.#lastPhase = phase;
    return isAgain;
  }
}

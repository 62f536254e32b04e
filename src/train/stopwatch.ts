import type { Clock } from '../core/clock';
import type { Observer, SpanName } from '../core/events';
import type { Seconds } from '../core/units';

/** Times stretches of a step, and reports them to an observer. */
export class Stopwatch {
  readonly #observer: Observer;
  readonly #clock: Clock;
  readonly #seconds = new Map<SpanName, Seconds>();

  constructor(observer: Observer, clock: Clock) {
    this.#observer = observer;
    this.#clock = clock;
  }

  /** Runs `work` as its own span. */
  span<T>(name: SpanName, work: () => T): T {
    const start = this.#clock.now();
    this.#observer.entered?.(name, '');
    const result = this.sum(name, work);
    this.#observer.span({ kind: 'span', name, module: '', start, end: this.#clock.now() });
    return result;
  }

  /** Adds up `work`'s time without an event, because its units report their own. */
  sum<T>(name: SpanName, work: () => T): T {
    const start = this.#clock.now();
    const result = work();
    this.#seconds.set(name, this.seconds(name) + this.#clock.now() - start);
    return result;
  }

  /** Time so far under a name. */
  seconds(name: SpanName): Seconds {
    return this.#seconds.get(name) ?? 0;
  }
}

import type { Observer, SpanName } from '../core/events';
import { now, type Seconds } from '../core/units';

/** Times stretches of a step, and tells them to an observer. */
export class Stopwatch {
  readonly #observer: Observer;
  readonly #seconds = new Map<SpanName, Seconds>();

  constructor(observer: Observer) {
    this.#observer = observer;
  }

  /** Runs `work` as a span of its own. */
  span<T>(name: SpanName, work: () => T): T {
    const start = now();
    const result = this.sum(name, work);
    this.#observer.span({ kind: 'span', name, module: '', start, end: now() });
    return result;
  }

  /** Adds up `work`'s time without an event (its units tell their own). */
  sum<T>(name: SpanName, work: () => T): T {
    const start = now();
    const result = work();
    this.#seconds.set(name, this.seconds(name) + now() - start);
    return result;
  }

  /** Time so far under a name. */
  seconds(name: SpanName): Seconds {
    return this.#seconds.get(name) ?? 0;
  }
}

import type { Clock, Observer, PointAction, Seconds, SpanName } from '../core';
import type { StepResult } from './step-result';

/** Measures the times of the parts of a step, and reports the parts to an observer as spans. */
export class Stopwatch {
  readonly #observer: Observer;
  readonly #clock: Clock;
  readonly #seconds = new Map<SpanName, Seconds>();

  constructor(observer: Observer, clock: Clock) {
    this.#observer = observer;
    this.#clock = clock;
  }

  /** Runs `work` with the action of its point, and reports it as a span. A whole step is no point. */
  span<T>(name: SpanName, work: (action: PointAction | undefined) => T): T {
    const start = this.#clock.now();
    const action = name === 'step' ? undefined : this.#observer.reached?.({ name, module: '' });
    this.#observer.entered?.(name, '');
    const result = this.sum(name, () => work(action));
    this.#observer.span({ kind: 'span', name, module: '', start, end: this.#clock.now() });
    return result;
  }

  /** Runs `work`, and adds its time under `name`. Reports no span, because the units within `work` report their own spans. */
  sum<T>(name: SpanName, work: () => T): T {
    const start = this.#clock.now();
    const result = work();
    this.add(name, this.#clock.now() - start);
    return result;
  }

  /** Adds a time to the sum under a name. */
  add(name: SpanName, seconds: Seconds): void {
    this.#seconds.set(name, this.seconds(name) + seconds);
  }

  /** Returns the sum of the times under a name so far. */
  seconds(name: SpanName): Seconds {
    return this.#seconds.get(name) ?? 0;
  }
}

/** Returns the times of a step's parts. */
export function stepSpansOf(watch: Stopwatch): StepResult['spans'] {
  return {
    data: watch.seconds('data'),
    forward: watch.seconds('forward'),
    backward: watch.seconds('backward'),
    loss: watch.seconds('loss'),
    optimizer: watch.seconds('optimizer'),
  };
}

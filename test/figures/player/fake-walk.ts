import type { LiveWalk } from '../../../src/figures/player/live-player';
import type { WalkRecord } from '../../../src/figures/player/walk-record';

/** A walk over a recorded step: it shows more and more rounds of the record, as ranks would report them. */
export class FakeWalk implements LiveWalk {
  readonly calls: string[] = [];
  isOver = false;
  readonly #whole: WalkRecord;
  readonly #listeners = new Set<() => void>();
  #numRounds = 1;

  constructor(whole: WalkRecord) {
    this.#whole = whole;
  }

  record(): WalkRecord {
    return { ...this.#whole, rounds: this.#whole.rounds.slice(0, this.#numRounds) };
  }

  next(): Promise<void> {
    this.calls.push('next');
    this.#numRounds++;
    this.#changed();
    return Promise.resolve();
  }

  until(text: string): Promise<void> {
    this.calls.push(`until ${text}`);
    if (text === 'barrier') return Promise.reject(new Error('no rank reaches a barrier'));
    const isAt = (): boolean => {
      const reached = this.#whole.rounds[this.#numRounds - 1]?.[0]?.numReached ?? 0;
      return this.#whole.points[0]?.[reached - 1]?.point.name === text;
    };
    do this.#numRounds++;
    while (!isAt() && this.#numRounds < this.#whole.rounds.length);
    this.#changed();
    return Promise.resolve();
  }

  live(): Promise<void> {
    this.calls.push('live');
    this.#numRounds = this.#whole.rounds.length;
    this.isOver = true;
    this.#changed();
    return Promise.resolve();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get numListeners(): number {
    return this.#listeners.size;
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

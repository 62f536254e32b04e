import type { PointAction, PointListener, PointValues } from '../core';

/** The listeners of a rank's points, in the order in which they were added. */
export class PointListeners {
  readonly #listeners: PointListener[] = [];
  /** Calls all listeners; undefined if there is none, so that points cost nothing. */
  reached: PointListener | undefined;

  /** Returns a function that removes the listener. */
  add(listener: PointListener): () => void {
    this.#listeners.push(listener);
    this.#choose();
    return () => {
      const at = this.#listeners.indexOf(listener);
      if (at >= 0) this.#listeners.splice(at, 1);
      this.#choose();
    };
  }

  #choose(): void {
    const listeners = [...this.#listeners];
    const [only] = listeners;
    this.reached =
      listeners.length <= 1
        ? only
        : (point) =>
            listeners.reduce<PointAction | undefined>((so, listener) => both(so, listener(point)), undefined);
  }
}

/** Returns one action that does what both do, in their order. */
function both(first: PointAction | undefined, second: PointAction | undefined): PointAction | undefined {
  if (first === undefined || second === undefined) return first ?? second;
  return {
    times: second.times ?? first.times,
    swaps: second.swaps ?? first.swaps,
    brings: inOrder(first.brings, second.brings),
    got: inOrder(first.got, second.got),
  };
}

type ReadValues = (values: PointValues) => void;

function inOrder(first: ReadValues | undefined, second: ReadValues | undefined): ReadValues | undefined {
  if (first === undefined || second === undefined) return first ?? second;
  return (values) => {
    first(values);
    second(values);
  };
}

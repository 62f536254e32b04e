import { writeSync } from 'node:fs';
import { nearest } from '../../config';
import type { PointAction, PointListener, PointValues, StepPoint, Warn } from '../../core';
import type { Interrupts } from '../../engine';
import { describeFault, type PlantedFault } from '../control/faults';
import { matcherOf, type PointMatcher, parsePointText, pointText } from '../control/point-text';

/** What faults need of their rank. */
export interface FaultPlace {
  readonly rank: number;
  readonly warn: Warn;
  readonly interrupts: Pick<Interrupts, 'check'>;
  /** The number of the step that runs. */
  readonly step: () => number;
}

/** The collectives in which a fault changes what the rank receives; in all other collectives it changes what the rank brings. */
const RECEIVING: readonly StepPoint['name'][] = ['allGather', 'gather', 'broadcast', 'recv'];
/** Points whose work makes values of this rank alone. */
const COMPUTING: readonly StepPoint['name'][] = ['forward', 'recompute', 'backward'];

/** The most points that a warning lists. */
const MOST_POINTS = 40;

/** The faults that this rank makes in one training. */
export class PlantedFaults {
  readonly #place: FaultPlace;
  readonly #faults: readonly OwnFault[];
  /** The points of the first step, as texts. */
  readonly #points = new Set<string>();
  #isFirst = true;

  constructor(faults: readonly PlantedFault[], place: FaultPlace) {
    this.#place = place;
    this.#faults = faults
      .filter(({ rank }) => rank === place.rank)
      .map((fault) => new OwnFault(fault, place));
  }

  /** Whether this rank makes any fault. */
  get isEmpty(): boolean {
    return this.#faults.length === 0;
  }

  readonly reached: PointListener = (point) => {
    if (this.#isFirst) this.#points.add(pointText(point));
    const step = this.#place.step();
    for (const fault of this.#faults) {
      const action = fault.actionAt(point, step);
      if (action !== undefined) return action;
    }
    return undefined;
  };

  /** Must be called after each step; after the first one, warns of faults that match no point. */
  stepped(): void {
    if (!this.#isFirst) return;
    this.#isFirst = false;
    const points = [...this.#points];
    for (const { fault, hasMatched } of this.#faults) {
      if (hasMatched) continue;
      const near = nearest(fault.at, points);
      const meant = near === undefined ? '' : ` (did you mean '${near}'?)`;
      const more = points.length > MOST_POINTS ? ` and ${points.length - MOST_POINTS} more` : '';
      this.#place.warn(
        `the fault of ${describeFault(fault)} does nothing: the step had no such point${meant}. This rank's points: ` +
          `${points.slice(0, MOST_POINTS).join(', ')}${more}`,
      );
    }
    this.#points.clear();
  }
}

/** One fault, with what it remembers of earlier steps. */
class OwnFault {
  readonly fault: PlantedFault;
  readonly #place: FaultPlace;
  readonly #acts: PointMatcher;
  /** Finds the points of all steps, because a stale fault needs the values of the step before. */
  readonly #finds: PointMatcher;
  readonly #before = new Map<string, readonly Float32Array[]>();
  readonly #counts = new Map<string, number>();
  #step = 0;
  hasMatched = false;

  constructor(fault: PlantedFault, place: FaultPlace) {
    this.fault = fault;
    this.#place = place;
    const text = parsePointText(fault.at);
    this.#acts = matcherOf(text);
    this.#finds = matcherOf({ ...text, step: undefined, number: undefined });
  }

  actionAt(point: StepPoint, step: number): PointAction | undefined {
    if (!this.#finds(point, step)) return undefined;
    this.hasMatched = true;
    const acts = this.#acts(point, step);
    if (this.fault.do === 'stale' && point.name !== 'data') return this.#staleAt(point, step, acts);
    return acts ? this.#actionOf(point) : undefined;
  }

  #actionOf(point: StepPoint): PointAction | undefined {
    switch (this.fault.do) {
      case 'skip':
        return skipping(point);
      case 'double':
        return point.name === 'optimizer' ? { times: 2 } : changing(point, double);
      case 'stale':
        return { times: 0 };
      case 'nan':
        return point.name === 'optimizer' ? { got: breakOne } : changing(point, breakOne);
      case 'wrong order':
        return { swaps: true };
      case 'slow link':
        return this.#wait();
      case 'kill':
        // The launcher repeats a rank's last words when it says that the rank died.
        writeSync(process.stderr.fd, `the planted fault of ${describeFault(this.fault)}\n`);
        process.kill(process.pid, 'SIGKILL');
        return this.#wait();
      default:
        return this.fault.do satisfies never;
    }
  }

  /** Remembers the values of this point, and puts those of the step before in their place. */
  #staleAt(point: StepPoint, step: number, acts: boolean): PointAction {
    if (step !== this.#step) this.#counts.clear();
    this.#step = step;
    const name = `${point.name} ${point.module}`;
    const count = this.#counts.get(name) ?? 0;
    this.#counts.set(name, count + 1);
    const key = `${name} ${count}`;
    const act = (values: PointValues): void => {
      const before = this.#before.get(key);
      this.#before.set(
        key,
        values.map((list) => list.slice()),
      );
      if (!acts || before === undefined) return;
      values.forEach((list, i) => {
        const old = before[i];
        if (old?.length === list.length) list.set(old);
      });
    };
    return point.name === 'optimizer' ? { brings: act } : changing(point, act);
  }

  /** Waits for the fault's seconds; an interrupt ends the wait. */
  #wait(): undefined {
    const word = new Int32Array(new SharedArrayBuffer(4));
    const end = performance.now() + this.fault.seconds * 1e3;
    for (let left = end - performance.now(); left > 0; left = end - performance.now()) {
      Atomics.wait(word, 0, 0, Math.min(left, 20));
      this.#place.interrupts.check();
    }
  }
}

/** Returns the action that changes a point's values: what the rank receives or computes, or what it brings to a collective. */
function changing(point: StepPoint, change: (values: PointValues) => void): PointAction {
  const isResult = RECEIVING.includes(point.name) || COMPUTING.includes(point.name);
  return isResult ? { got: change } : { brings: change };
}

function skipping(point: StepPoint): PointAction {
  if (point.name === 'optimizer' || point.name === 'reshard') return { times: 0 };
  if (point.name !== 'broadcast') return changing(point, clear);
  let own: readonly Float32Array[] = [];
  return {
    brings: (values) => {
      own = values.map((list) => list.slice());
    },
    got: (values) => {
      for (const [i, list] of values.entries()) list.set(own[i] ?? list);
    },
  };
}

function clear(values: PointValues): void {
  for (const list of values) list.fill(0);
}

function double(values: PointValues): void {
  for (const list of values) for (let i = 0; i < list.length; i++) list[i] = 2 * (list[i] ?? 0);
}

function breakOne([first]: PointValues): void {
  first?.fill(Number.NaN, 0, 1);
}

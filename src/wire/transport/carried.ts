import type { Seconds, ThreadCpuClock } from '../../core';
import type { Arrival, ThreadProgress } from './call';
import type { GroupMemory } from './group-memory';
import type { SpanCall } from './spans';
import type { Steps } from './wait';

/** Runs the steps of collectives, and stores times of the newest collective. */
export interface Lane {
  run(call: SpanCall): Steps<readonly number[]>;
  /** The time at which all ranks of the newest collective had arrived and had free links. */
  readonly ready: Seconds;
  /** This rank's arrival at the newest collective. */
  readonly arrival: Arrival;
}

/** The result of a collective. `started` is the time at which a shaped link began to carry it. */
export interface Carried {
  readonly values: readonly number[];
  readonly started: Seconds | undefined;
  readonly arrival: Arrival;
  /** On a shaped link, the modelled duration of the transfer; without a shaped link, this thread's CPU time since its arrival. */
  readonly seconds: Seconds;
}

/** Runs a collective; on a shaped link, its last step waits for the end of the transfer. */
export function* carried(lane: Lane, call: SpanCall, memory: GroupMemory): Steps<Carried> {
  const { link, cpu } = memory;
  const { values, arrival, seconds } = yield* runTimed(lane, call, cpu);
  const lengths = (lists: SpanCall['inputs']): number[] => lists.map(({ total }) => total);
  const lists = { inputs: lengths(call.inputs), outputs: lengths(call.outputs) };
  const landing = link?.carry(call.header, lane.ready, lists);
  if (landing === undefined) return { values, started: undefined, arrival, seconds };
  if (!landing.ready()) yield landing;
  const { started, lands } = landing;
  return { values, started, arrival, seconds: lands - started };
}

/** Returns a collective's times. `free` is the time at which its thread could begin, `began` the time at which it began. */
export function progressOf(free: Seconds, began: Arrival, { arrival, seconds }: Carried): ThreadProgress {
  const lacked = Math.max(0, arrival.at - free - (arrival.cpu - began.cpu));
  return { free, arrived: arrival.at, lacked, carried: seconds };
}

/**
 * Runs the steps and adds up the thread's CPU time since its arrival. Time between two steps is not counted, because
 * the thread may run other calls then.
 */
function* runTimed(
  lane: Lane,
  call: SpanCall,
  cpu: ThreadCpuClock = () => 0,
): Steps<{ readonly values: readonly number[]; readonly arrival: Arrival; readonly seconds: Seconds }> {
  const steps = lane.run(call);
  let arrival: Arrival | undefined;
  let seconds: Seconds = 0;
  try {
    for (;;) {
      const from = cpu();
      const step = steps.next();
      // The first step ends after the arrival. The arrival is stored now, because the lane's next call overwrites it.
      arrival ??= lane.arrival;
      seconds += Math.max(0, cpu() - Math.max(from, arrival.cpu));
      if (step.done === true) return { values: step.value, arrival, seconds };
      yield step.value;
    }
  } finally {
    steps.return([]);
  }
}

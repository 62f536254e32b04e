import type { Seconds } from '../core/units';
import type { SpanCall } from './collectives';
import type { LinkClock } from './link-clock';
import { ringCost } from './ring-cost';
import type { Steps } from './wait';

/** Runs a collective's steps. */
export interface Lane {
  run(call: SpanCall): Steps<readonly number[]>;
  /** When all ranks of the collective that ended last had arrived with their links free. */
  readonly ready: Seconds;
}

/** What a collective brought, and when a shaped link began to carry it. */
export interface Carried {
  readonly values: readonly number[];
  readonly started: Seconds | undefined;
}

/** A collective's steps; where the link is shaped, the last one waits for the transfer's end. */
export function* carried(
  lane: Lane,
  call: SpanCall,
  place: { readonly rank: number; readonly size: number; readonly link: LinkClock | undefined },
): Steps<Carried> {
  const values = yield* lane.run(call);
  const { rank, size, link } = place;
  if (link === undefined) return { values, started: undefined };
  const { op, wireDType, epoch } = call.header;
  const lengths = (lists: SpanCall['inputs']): number[] => lists.map(({ total }) => total);
  const sizes = { op, wireDType, inputs: lengths(call.inputs), outputs: lengths(call.outputs) };
  const landing = link.carry(epoch, lane.ready, ringCost(sizes, rank, size));
  if (!landing.ready()) yield landing;
  return { values, started: landing.started };
}

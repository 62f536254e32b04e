import { z } from 'zod';
import { parseOptions, type ShapeOf } from '../../config';
import { ConfigError, isWhole, listed } from '../../core';
import { type PointText, parsePointText } from './point-text';

/** What a planted fault can do; docs/how-to/faults.md says what each means at each point. */
export const FAULT_KINDS = ['skip', 'double', 'stale', 'wrong order', 'nan', 'slow link', 'kill'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

/** A fault that one rank makes on purpose. */
export interface Fault {
  readonly rank: number;
  /** The points of a step at which the fault acts: 'reduceScatter layer 3', 'optimizer step 5'. Without a step: in every step. */
  readonly at: string;
  readonly do: FaultKind;
  /** How long a slow link makes the rank wait at each of these points. Default 0.2. */
  readonly seconds?: number | undefined;
}

/** A fault as ranks get it. */
export interface PlantedFault extends Fault {
  readonly seconds: number;
}

const ANYWHERE = ['slow link', 'kill'] as const satisfies readonly FaultKind[];
const SENT = ['skip', 'double', 'stale', 'nan', ...ANYWHERE] as const satisfies readonly FaultKind[];
const RECEIVED = ['skip', 'stale', 'nan', ...ANYWHERE] as const satisfies readonly FaultKind[];

/** The faults that have a meaning at a point. Those of forward, loss and others without a collective have no link. */
const MEANINGS: Readonly<Record<NonNullable<PointText['name']>, readonly FaultKind[]>> = {
  allReduce: [...SENT, 'wrong order'],
  reduceScatter: [...SENT, 'wrong order'],
  reduce: [...SENT, 'wrong order'],
  allToAll: [...SENT, 'wrong order'],
  scatter: [...SENT, 'wrong order'],
  send: SENT,
  allGather: [...RECEIVED, 'wrong order'],
  unshard: [...RECEIVED, 'wrong order'],
  gather: [...RECEIVED, 'wrong order'],
  broadcast: [...RECEIVED, 'wrong order'],
  recv: RECEIVED,
  barrier: ANYWHERE,
  forward: ['nan', 'kill'],
  // The result of a second forward is not used, only what its operations save.
  recompute: ['kill'],
  backward: ['skip', 'double', 'stale', 'nan', 'kill'],
  optimizer: ['skip', 'double', 'stale', 'nan', 'kill'],
  reshard: ['skip', 'kill'],
  data: ['stale', 'kill'],
  loss: ['kill'],
};

const DEFAULT_SECONDS = 0.2;
const MOST_SECONDS = 60;

const FAULT = {
  rank: z.number().nonoptional(),
  at: z.string().nonoptional(),
  do: z.enum(FAULT_KINDS).nonoptional(),
  seconds: z.number().positive().max(MOST_SECONDS).default(DEFAULT_SECONDS),
} satisfies ShapeOf<Fault>;

/** Checks a list of faults for a training on ranks 0 to `world` - 1. Throws: CONFIG. */
export function checkedFaults(faults: unknown, world: number): readonly PlantedFault[] {
  if (faults === undefined) return [];
  if (!Array.isArray(faults))
    throw new ConfigError(
      "faults must be a list, such as [{ rank: 2, at: 'reduceScatter layer 3', do: 'skip' }]",
    );
  return faults.map((fault: unknown, i) => checkedFault(fault, `faults[${i}]`, world));
}

function checkedFault(fault: unknown, name: string, world: number): PlantedFault {
  // `parseOptions` throws for a value that is no object.
  const { rank, at, do: kind, seconds } = parseOptions(name, fault as Fault, FAULT);
  if (!isWhole(rank, 0) || rank >= world)
    throw new ConfigError(
      `${name} names rank ${rank}, but the training has ranks 0 to ${world - 1}; choose one of them`,
    );
  const { name: point } = parsePointText(at);
  if (point === undefined)
    throw new ConfigError(
      `${name} is planted at '${at}', which names no kind of point; begin with one, such as 'reduceScatter ${at}' or 'forward ${at}'`,
    );
  const meanings = MEANINGS[point];
  if (!meanings.includes(kind))
    throw new ConfigError(
      `${name}: '${kind}' has no meaning at ${point}; faults there are ${listed(meanings.map((word) => `'${word}'`))}`,
      { meanings },
    );
  return { rank, at, do: kind, seconds };
}

/** Describes a fault: "rank 2 at 'reduceScatter layer 3': 'skip'". */
export function describeFault({ rank, at, do: kind }: Fault): string {
  return `rank ${rank} at '${at}': '${kind}'`;
}

import { inspect } from 'node:util';
import type { Redistributed } from '../../checkpoint/reshard/redistribute';
import { type Bytes, formatBytes, formatSeconds, type Seconds } from '../../core/units';
import { type Shown, withShown } from '../../figures/shown';
import { createTable, DISPLAY, type DisplayBundle } from '../../figures/table';
import type { ReshardPlan } from './reshard-change';
import { placeText } from './text';

/** Proof that a resharded run holds the same values. Shown in a notebook as one line over a table of the ranks. */
export interface ReshardReport extends Shown {
  /** Number of parameters and optimizer states; each is equal to its old value, bit by bit. */
  readonly numTensors: number;
  /** Number of optimizer states in 8 bits per number: their blocks have new borders, so they were encoded again. */
  readonly numCoded: number;
  /** Bytes of all values, each element once; every copy and shard was compared, bit by bit. */
  readonly bytes: Bytes;
  /** Compared bytes on all ranks; every copy counts. */
  readonly comparedBytes: Bytes;
  /** Bytes that moved between ranks. */
  readonly movedBytes: Bytes;
  readonly seconds: Seconds;
}

/** Combines the ranks' results into one report. */
export function createReshardReport(
  from: ReshardPlan,
  to: ReshardPlan,
  ranks: readonly Redistributed[],
  seconds: Seconds,
): ReshardReport {
  const sum = (of: (rank: Redistributed) => Bytes): Bytes =>
    ranks.reduce((total, rank) => total + of(rank), 0);
  const facts = {
    numTensors: ranks[0]?.numTensors ?? 0,
    numCoded: ranks[0]?.numCoded ?? 0,
    bytes: ranks[0]?.bytes ?? 0,
    comparedBytes: sum((rank) => rank.comparedBytes),
    movedBytes: sum((rank) => rank.receivedBytes),
    seconds,
  };
  const text =
    `${placeText(from)} → ${placeText(to)}: ${facts.numTensors} tensors, ${formatBytes(facts.bytes)}, all bit-equal; ` +
    `${facts.numCoded === 0 ? '' : `${facts.numCoded} 8-bit states encoded again; `}` +
    `${formatBytes(facts.movedBytes)} moved between ranks in ${formatSeconds(seconds)}`;
  const rows = ranks.map((rank, i) => ({
    rank: i,
    receivedBytes: rank.receivedBytes,
    comparedBytes: rank.comparedBytes,
  }));
  const bytes = (value: unknown): string => formatBytes(Number(value));
  const table = createTable(rows, {
    title: text,
    columns: [
      { key: 'rank' },
      { key: 'receivedBytes', title: 'received', align: 'right', format: bytes },
      { key: 'comparedBytes', title: 'compared', align: 'right', format: bytes },
    ],
  });
  return withShown(facts, {
    toString: () => text,
    [DISPLAY]: (): DisplayBundle => table[DISPLAY](),
    [inspect.custom]: () => text,
  } as Shown);
}

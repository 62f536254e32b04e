import { inspect } from 'node:util';
import type { Redistributed } from '../../checkpoint/reshard/redistribute';
import { type Bytes, formatBytes, formatSeconds, type Seconds } from '../../core/units';
import { type Shown, withShown } from '../../figures/shown';
import { createTable, DISPLAY, type DisplayBundle } from '../../figures/table';
import type { ReshardPlan } from './reshard-change';
import { placeText } from './text';

/** Proof that a resharded run holds what it held. Shown in a notebook as one line over a table of the ranks. */
export interface ReshardReport extends Shown {
  /** Parameters and states of the optimizer: each is what it was, bit by bit. */
  readonly numTensors: number;
  /** States that an optimizer keeps in 8 bits a number: their blocks lie elsewhere now, so they were coded anew. */
  readonly numCoded: number;
  /** Of all of them, each element once; every copy and shard of it was compared, bit by bit. */
  readonly bytes: Bytes;
  /** Compared on all ranks together: copies count each. */
  readonly comparedBytes: Bytes;
  /** What went from rank to rank. */
  readonly movedBytes: Bytes;
  readonly seconds: Seconds;
}

/** What ranks did, together. */
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
    `${facts.numCoded === 0 ? '' : `${facts.numCoded} 8-bit states coded anew; `}` +
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

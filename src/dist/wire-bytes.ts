import { itemBytes } from '../core/dtypes';
import type { Bytes } from '../core/units';
import { type Call, totalLength } from '../transport/call';

/**
 * Bytes that a rank of a group receives from the others, counted by the ring algorithm at the wire's dtype. allReduce
 * is a reduce-scatter of parts that differ by at most one element, then an all-gather of the parts.
 * Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms".
 */
export function wireBytes(call: Call, rank: number, size: number): Bytes {
  return wireElements(call, rank, size) * itemBytes(call.header.wireDType);
}

function wireElements({ header, inputs, outputs }: Call, rank: number, size: number): number {
  const others = size - 1;
  const outputTotals = outputs.map(totalLength);
  const fromOthers = (): number =>
    outputTotals.reduce((sum, length, index) => sum + (index === rank ? 0 : length), 0);
  switch (header.op) {
    case 'allReduce': {
      const total = totalLength(inputs[0] ?? []);
      const own = partLength(total, rank, size);
      return others * own + (total - own);
    }
    case 'reduceScatter':
      return others * (outputTotals[0] ?? 0);
    case 'allGather':
    case 'allToAll':
      return fromOthers();
    case 'broadcast':
      return header.peer === rank ? 0 : totalLength(inputs[0] ?? []);
    case 'recv':
      return outputTotals[0] ?? 0;
    default:
      return 0;
  }
}

function partLength(total: number, rank: number, size: number): number {
  return Math.floor(((rank + 1) * total) / size) - Math.floor((rank * total) / size);
}

import { itemBytes, total, type WireDType } from '../../core';
import type { CallOp } from './call';
import type { WireCost } from './link';

/** The sizes of a collective on which its time on a link depends. */
export interface CallSizes {
  readonly op: CallOp;
  readonly wireDType: WireDType;
  /** Numbers of elements of the call's input lists and output lists; the meaning of a list depends on the op (see Call). */
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** Bytes of the one number that a rank contributes to exchange or subgroup. */
const NUMBER_BYTES = 4;

/**
 * Returns the steps and bytes of a collective by the ring algorithm. All ranks get the same numbers (uneven parts count with
 * their mean), except for allToAll: its bytes are either the bytes that this rank sends to other ranks or the bytes that it
 * receives from them; the larger number counts.
 * Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"; broadcast and reduce as pipelined chains; all parts of
 * a gather or scatter pass the root's link.
 */
export function ringCost(
  { op, wireDType, inputs, outputs }: CallSizes,
  rank: number,
  size: number,
): WireCost {
  const others = size - 1;
  const bytes = (elements: number): number => elements * itemBytes(wireDType);
  const share = others / size;
  switch (op) {
    case 'allReduce':
      return { steps: 2 * others, bytes: 2 * share * bytes(total(inputs)) };
    case 'reduceScatter':
      return { steps: others, bytes: share * bytes(total(inputs)) };
    case 'allGather':
      return { steps: others, bytes: share * bytes(total(outputs)) };
    case 'allToAll':
      return { steps: others, bytes: bytes(Math.max(exceptOwn(inputs, rank), exceptOwn(outputs, rank))) };
    case 'broadcast':
    case 'reduce':
      return { steps: others, bytes: bytes(total(inputs)) };
    case 'gather':
      return { steps: others, bytes: others * bytes(inputs[0] ?? 0) };
    case 'scatter':
      return { steps: others, bytes: others * bytes(outputs[0] ?? 0) };
    case 'send':
      return { steps: 1, bytes: bytes(total(inputs)) };
    case 'recv':
      return { steps: 1, bytes: bytes(total(outputs)) };
    case 'barrier':
      return { steps: 2 * others, bytes: 0 };
    case 'exchange':
    case 'subgroup':
      return { steps: others, bytes: others * NUMBER_BYTES };
    default:
      return op satisfies never;
  }
}

function exceptOwn(lengths: readonly number[], rank: number): number {
  return total(lengths) - (lengths[rank] ?? 0);
}

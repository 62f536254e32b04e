import type { CommCause } from '../core/events';
import { listed } from '../core/listed';
import { totalWait, WAIT_KINDS, type WaitKind, type WaitSeconds } from '../ledger/waits';
import { short } from './format';

/** Words for the kinds of waits; in a sentence, they follow the verb "waits". */
export const WAIT_WORDS: Readonly<Record<WaitKind, string>> = {
  wire: 'for the wire',
  peer: 'for a peer',
  core: 'for a core',
  unknown: 'for wire, peer or core',
};

/** Names the kind that is more than half of a wait, as ", mostly for a core"; '' if each kind is at most half of it. */
export function mostlyFor(waits: WaitSeconds): string {
  const top = WAIT_KINDS.find((kind) => waits[kind] > totalWait(waits) / 2);
  return top === undefined || top === 'unknown' ? '' : `, mostly ${WAIT_WORDS[top]}`;
}

/**
 * Formats waits ÷ `divisor`, as "3.1 for the wire, 2.0 for a peer and 40.2 for a core". If no wait's kind is known, the text
 * has only the unknown waits.
 */
export function waitsText(waits: WaitSeconds, divisor: number): string {
  const areUnknown = waits.unknown > 0 && waits.unknown === totalWait(waits);
  const said = WAIT_KINDS.filter((kind) => (kind === 'unknown' ? waits.unknown > 0 : !areUnknown));
  return listed(said.map((kind) => `${short(waits[kind] / divisor)} ${WAIT_WORDS[kind]}`));
}

/** Words for the data that a collective carries. */
export const CAUSE_WORDS: Readonly<Record<CommCause, string>> = {
  param: 'parameters',
  grad: 'gradients',
  activation: 'activations',
  norm: 'gradient norm',
  loss: 'loss',
  buffer: 'buffers',
  user: 'your own calls',
  control: 'control',
};

/** Returns an operation's name in prose, as 'all-gather' for allGather. */
export function spoken(op: string): string {
  return op.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

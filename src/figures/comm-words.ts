import type { CommCause } from '../core/events';

/** What a collective carries, in words. */
export const CAUSE_WORDS: Readonly<Record<CommCause, string>> = {
  param: 'parameters',
  grad: 'gradients',
  norm: 'gradient norm',
  loss: 'loss',
  buffer: 'buffers',
  user: 'your own',
  control: 'control',
};

/** allGather is spoken all-gather. */
export function spoken(op: string): string {
  return op.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

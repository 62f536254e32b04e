import type { MemoryCause } from '../../core/events';
import { CAUSE_FILL, STACK_ORDER } from './palette';
import type { StackStyle } from './stacks';

/** Memory by cause, as all figures stack it. */
export const CAUSE_STYLE: StackStyle<MemoryCause> = {
  order: STACK_ORDER,
  fillOf: (cause) => CAUSE_FILL[cause],
  hover: (cause) => `<b>${cause}</b> %{customdata:,} B<extra></extra>`,
};

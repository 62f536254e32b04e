import { formatBytes, formatSeconds } from '../../src/core';
import { type Change, type PlannedInput, peakInBytes, reservableBytes } from '../../src/planner';
import { el, table } from './dom';
import type { Proposals } from './plan';
import { fitWords } from './result';

/** The number of changes that are shown before "show all". */
const MOST_SHOWN = 8;

/** Lists changes with their effects; `apply` is called with the change whose button is pressed. */
export function proposals(
  planned: PlannedInput,
  { fitting, single }: Proposals,
  apply: (change: Change) => void,
): HTMLElement {
  const rows = (changes: readonly Change[]) => changes.map((change) => row(planned, change, apply));
  const [shown, others] = [single.slice(0, MOST_SHOWN), single.slice(MOST_SHOWN)];
  return el(
    'div',
    {},
    fitting.length === 0 ? null : table('The nearest changes that fit', COLUMNS, rows(fitting)),
    !planned.prediction.fits && fitting.length === 0
      ? el(
          'p',
          {},
          'No other layout of this batch fits, even on twice as many GPUs; take more or larger GPUs.',
        )
      : null,
    single.length === 0
      ? el('p', {}, 'No other value of a single setting is legal here.')
      : table('One other setting, in the same framework and on the same GPUs', COLUMNS, rows(shown)),
    others.length === 0
      ? null
      : el(
          'details',
          {},
          el('summary', {}, `${others.length} more`),
          table('More changes of one setting', COLUMNS, rows(others)),
        ),
  );
}

const COLUMNS = ['change', 'time', 'memory', 'fits', 'apply'];

function row(
  { prediction: before }: PlannedInput,
  change: Change,
  apply: (change: Change) => void,
): readonly (Node | string)[] {
  const { seconds, memory, fits } = change.prediction;
  const { value: peak, low, high } = peakInBytes(memory);
  const peakBefore = peakInBytes(before.memory).value;
  const button = el(
    'button',
    { type: 'button', 'aria-label': `apply ${change.words}`, click: () => apply(change) },
    'apply',
  );
  return [
    change.words,
    el('span', {}, `${formatSeconds(seconds.value)} `, difference(seconds.value / before.seconds.value)),
    el('span', {}, `${formatBytes(peak)} `, difference(peak / peakBefore)),
    el('span', { class: fits ? 'yes' : 'no' }, fitWords(fits, low, high, reservableBytes(change.layout))),
    button,
  ];
}

/** Writes a ratio as a difference: '−12%'; green if it is smaller. */
function difference(ratio: number): Node {
  const percent = Math.round(100 * (ratio - 1));
  const text = percent === 0 ? '±0%' : `${percent < 0 ? '−' : '+'}${Math.abs(percent)}%`;
  return el('span', { class: `difference ${percent < 0 ? 'yes' : percent > 0 ? 'more' : ''}` }, text);
}

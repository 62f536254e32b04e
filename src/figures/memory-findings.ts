import type { MemoryCause } from '../core/events';
import { sumOf } from '../core/statistics';
import type { Bytes } from '../core/units';
import { totalBytes } from '../ledger/memory';
import type { BytesByCause } from '../ledger/record';
import { type Quantities, type Quantity, quantity } from './figure';
import { percent } from './format';
import { unescaped } from './grammar/ink';

/** The causes that one measure would lower, a name for these causes, and the measure. */
type CauseGroup = readonly [causes: readonly MemoryCause[], name: string, measure: string];

const ACTIVATIONS: readonly MemoryCause[] = ['activation', 'temp'];
const BOTH = 'activations and temporaries';
const STATES: readonly MemoryCause[] = ['param.shard', 'grad.shard', 'optimizer'];
const GROUPS: readonly CauseGroup[] = [
  [ACTIVATIONS, BOTH, 'unchanged by sharding'],
  [['param.full'], 'whole parameters', 'smaller units would lower it'],
  [['grad.full'], 'whole gradients', 'an earlier reduction would lower it'],
  [STATES, 'model states', 'more ranks would lower it'],
  [['comm'], 'communication buffers', 'smaller buckets would lower it'],
  [['batch'], 'the batch', 'a smaller batch would lower it'],
];

/**
 * Returns a long and a short wording, as "80% of the peak is activations and temporaries: unchanged by sharding". `leftBytes`
 * are the bytes of temporaries that a cell has not disposed.
 */
export function peakFinding(held: BytesByCause, leftBytes: Bytes, world: number): readonly [string, string] {
  const total = totalBytes(held);
  if (total === 0) return ['Nothing was held on the device', 'Nothing was held on the device'];
  const atPeak = { ...held, temp: held.temp - leftBytes };
  const bytesOf = ([causes]: CauseGroup): number => sumOf(causes, (cause) => atPeak[cause]);
  const largest = GROUPS.reduce((a, b) => (bytesOf(b) > bytesOf(a) ? b : a));
  const [causes, name, measure] = largest;
  // Titles are plain text, without escapes.
  const shareOf = (bytes: Bytes): string => `${unescaped(percent(bytes / total))} of the peak is`;
  if (leftBytes > bytesOf(largest)) {
    const share = `${shareOf(leftBytes)} results of earlier passes`;
    return [`${share}: tf.tidy would free them`, share];
  }
  const share = `${shareOf(bytesOf(largest))} ${causes === ACTIVATIONS ? activationName(atPeak) : name}`;
  return [`${share}: ${causes === STATES && world === 1 ? 'sharding would lower it' : measure}`, share];
}

/** Names activations, temporaries or both, depending on which of them are more than a hundredth of the peak. */
function activationName(atPeak: BytesByCause): string {
  const least = totalBytes(atPeak) / 100;
  if (atPeak.temp <= least) return 'activations';
  return atPeak.activation <= least ? 'temporaries' : BOTH;
}

/** Returns the numbers of a peak that a reader may guess. */
export function peakQuantities(atPeak: BytesByCause): Quantities {
  const total = totalBytes(atPeak);
  const share = (are: string, ...causes: MemoryCause[]): Quantity => {
    const value = total > 0 ? (sumOf(causes, (cause) => atPeak[cause]) / total) * 100 : 0;
    return quantity(value, '%', (part) => `${are} ${part} of the peak`);
  };
  return {
    peakMB: quantity(total / 1e6, 'MB', (mb) => `the peak is ${mb}`),
    paramShare: share('parameters are', 'param.shard', 'param.full'),
    gradShare: share('gradients are', 'grad.shard', 'grad.full'),
    optimizerShare: share('the optimizer’s moments are', 'optimizer'),
    activationShare: share('activations are', 'activation'),
  };
}

import type { MemoryCause } from '../core/events';
import { totalBytes } from '../ledger/memory';
import type { BytesByCause } from '../ledger/record';
import type { Quantities, Quantity } from './figure';
import { listed, percent } from './format';

/** Causes that one measure would lower, and that measure. */
interface CauseGroup {
  readonly causes: readonly MemoryCause[];
  readonly name: string;
  readonly so: (world: number) => string;
}

const GROUPS: readonly CauseGroup[] = [
  {
    causes: ['activation', 'temp'],
    name: 'activations and temporaries',
    so: () => 'sharding cannot lower it',
  },
  { causes: ['param.full'], name: 'whole parameters', so: () => 'smaller units would lower it' },
  { causes: ['grad.full'], name: 'whole gradients', so: () => 'sooner reduction would lower it' },
  {
    causes: ['param.shard', 'grad.shard', 'optimizer'],
    name: 'model states',
    so: (world) => (world > 1 ? 'more ranks would lower it' : 'sharding would lower it'),
  },
  { causes: ['comm'], name: 'communication buffers', so: () => 'smaller buckets would lower it' },
  { causes: ['batch'], name: 'the batch', so: () => 'a smaller batch would lower it' },
];

/** "80% of the peak is activations and temporaries: more sharding cannot lower it", with a shorter wording. */
export function peakFinding(atPeak: BytesByCause, world: number): readonly [string, string] {
  const total = totalBytes(atPeak);
  if (total === 0) return ['Nothing was held on the device', 'Nothing was held on the device'];
  const [first] = GROUPS.map((group) => ({
    group,
    bytes: group.causes.reduce((sum, cause) => sum + atPeak[cause], 0),
  })).sort((a, b) => b.bytes - a.bytes);
  if (first === undefined) return ['', ''];
  const { group, bytes } = first;
  const present = group.causes.filter((cause) => atPeak[cause] > total / 100);
  const name = present.length === 1 && group.causes.length === 2 ? listed(present.map(spoken)) : group.name;
  const share = `${plainPercent(bytes / total)} of the peak is ${name}`;
  return [`${share}: ${group.so(world)}`, share];
}

/** Titles are plain text. */
function plainPercent(share: number): string {
  return percent(share).replace('&lt;', '<').replace('&gt;', '>');
}

/** What one may have guessed about a peak. */
export function peakQuantities(atPeak: BytesByCause): Quantities {
  const total = totalBytes(atPeak);
  const share = (are: string, ...causes: MemoryCause[]): Quantity => ({
    value: total > 0 ? (causes.reduce((sum, cause) => sum + atPeak[cause], 0) / total) * 100 : 0,
    unit: '%',
    says: (part) => `${are} ${part} of the peak`,
  });
  return {
    peakMB: { value: total / 1e6, unit: 'MB', says: (mb) => `the peak is ${mb}` },
    paramShare: share('parameters are', 'param.shard', 'param.full'),
    gradShare: share('gradients are', 'grad.shard', 'grad.full'),
    optimizerShare: share('the optimizer’s moments are', 'optimizer'),
    activationShare: share('activations are', 'activation'),
  };
}

function spoken(cause: MemoryCause): string {
  return cause === 'activation' ? 'activations' : cause === 'temp' ? 'temporaries' : cause;
}

import { formatBytes, formatSeconds, sumOf } from '../core';
import { type Link, linkText, transferSeconds } from '../wire';
import { counted } from './format';
import { type Column, createTable, numbers, type Table } from './table';

/** One unit of a model. */
export interface UnitFacts {
  /** The module's full name; '' for the root. */
  readonly module: string;
  /** The strategy's name, as in the config. */
  readonly strategy: string;
  readonly numParams: number;
  /** The number of elements that are added so that the shards of all ranks have equal sizes. */
  readonly padding: number;
  /** The number of ranks over which the unit is sharded; 1 if the unit is not gathered. */
  readonly numShards: number;
}

export interface UnitsTableOptions {
  /** The link that a shaped wire simulates. */
  readonly link?: Link | undefined;
  /** Bytes per element of whole parameters. Default 4. */
  readonly itemBytes?: number;
  /** Bytes per element on the wire. Default itemBytes. */
  readonly wireItemBytes?: number;
}

/**
 * A unit with more than this share of the model is too large: with prefetch two units are whole at the same time, so sharding
 * saves nothing. Source: torch FSDP's limit_all_gathers (at most two gathers at once).
 */
const LARGEST_SHARE = 0.5;

/**
 * Makes a table of a model's units: the size of each unit, the time of its gather on the link, and whether the unit is too
 * small or too large. A unit is too small if its gather's latency is longer than the transfer of its bytes (half-performance
 * length). Source: Hockney 1994, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", n_1/2.
 */
export function unitsTable(units: readonly UnitFacts[], options: UnitsTableOptions = {}): Table {
  const { link, itemBytes = 4, wireItemBytes = itemBytes } = options;
  const model = sumOf(units, ({ numParams }) => numParams);
  const rows = units.map(({ module, strategy, numParams, padding, numShards }) => {
    const numElements = numParams + padding;
    const gather = link && numShards > 1 ? gatherOf(numElements * wireItemBytes, numShards, link) : null;
    const modelShare = model > 0 ? numParams / model : 0;
    return {
      module: module === '' ? 'root' : module,
      strategy,
      numParams,
      padding,
      bytes: numElements * itemBytes,
      numShards,
      modelShare,
      gatherSeconds: gather && gather.latency + gather.transfer,
      latencySeconds: gather?.latency ?? null,
      hint: gather?.hint ?? (numShards > 1 && modelShare > LARGEST_SHARE ? largeHint(modelShare) : null),
    };
  });
  const hinted = rows.filter(({ hint }) => hint !== null).length;
  const wire = link === undefined ? '' : `, ${linkText(link)}`;
  const size = `${counted(units.length, 'unit')}, together ${formatBytes(model * itemBytes)}`;
  const title = `${size}${wire}${hinted === 0 ? '' : `; ${hinted} with a hint`}`;
  const columns = COLUMNS.filter(
    ({ key }) => (key !== 'gatherSeconds' || link !== undefined) && (key !== 'hint' || hinted > 0),
  );
  return createTable(rows, { title, columns });
}

/** Returns the times of one all-gather by the ring: the latency of N-1 steps, and the transfer of (N-1)/N of the unit's bytes. */
function gatherOf(unitBytes: number, numShards: number, link: Link) {
  const steps = numShards - 1;
  const latency = transferSeconds(link, { steps, bytes: 0 });
  const transfer = transferSeconds(link, { steps: 0, bytes: (unitBytes * steps) / numShards });
  if (latency <= transfer) return { latency, transfer };
  // The unit's bytes at which latency and transfer are equal.
  const even = formatBytes(Math.ceil(link.latencySeconds * link.bytesPerSecond * numShards));
  const times = `latency ${formatSeconds(latency)} > transfer ${formatSeconds(transfer)}`;
  return {
    latency,
    transfer,
    hint: `too small for the link: ${times}; the two are equal at ${even} on the wire`,
  };
}

function largeHint(share: number): string {
  const percentage = Math.round(share * 100);
  return `too large: ${percentage}% of the model is whole at once (over ${LARGEST_SHARE * 100}%); wrap modules inside it`;
}

const COLUMNS: readonly Column[] = [
  { key: 'module' },
  { key: 'strategy' },
  { key: 'numParams', title: 'parameters' },
  { key: 'padding' },
  { key: 'bytes', title: 'whole', format: numbers(formatBytes) },
  { key: 'modelShare', title: 'of the model', format: numbers((share) => `${(share * 100).toFixed(1)}%`) },
  { key: 'gatherSeconds', title: 'gather on the link', align: 'right', format: numbers(formatSeconds) },
  { key: 'hint', format: (value) => String(value ?? '') },
];

import { formatBytes, formatSeconds } from '../core/units';
import { type Link, linkText, transferSeconds } from '../transport/link';
import { counted } from './format';
import { type Column, createTable, numbers, type Table } from './table';

/** One unit of a model, as its owner describes it. */
export interface UnitFacts {
  /** Full name; '' for the root. */
  readonly module: string;
  /** The strategy's real name. */
  readonly strategy: string;
  readonly numParams: number;
  /** Elements added so that all ranks' shards are equal. */
  readonly padding: number;
  /** Ranks that share the unit; 1 if it is not gathered. */
  readonly numShards: number;
}

export interface UnitsTableOptions {
  /** The wire, if it is shaped. */
  readonly link?: Link | undefined;
  /** Bytes of one element held whole. Default 4. */
  readonly itemBytes?: number;
  /** Bytes of one element on the wire. Default itemBytes. */
  readonly wireItemBytes?: number;
}

/**
 * A unit is too large when it is more than half of the model: two units are whole at once while the next is gathered
 * ahead, so cutting saves nothing then. Source: torch FSDP's limit_all_gathers (at most two gathers at once).
 */
const LARGEST_SHARE = 0.5;

/**
 * The units of a model: what each holds, how long its gather takes on the link, and whether it is too small or too large.
 * Too small: the latency of its gather is longer than the transfer of its bytes (below the half-performance length).
 * Source: Hockney 1994, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", n_1/2.
 */
export function unitsTable(units: readonly UnitFacts[], options: UnitsTableOptions = {}): Table {
  const { link, itemBytes = 4, wireItemBytes = itemBytes } = options;
  const model = units.reduce((sum, { numParams }) => sum + numParams, 0);
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

/** One all-gather by the ring: N-1 steps, (N-1)/N of the unit's bytes. */
function gatherOf(unitBytes: number, numShards: number, link: Link) {
  const steps = numShards - 1;
  const latency = transferSeconds(link, { steps, bytes: 0 });
  const transfer = transferSeconds(link, { steps: 0, bytes: (unitBytes * steps) / numShards });
  if (latency <= transfer) return { latency, transfer };
  // Bytes of a unit at which both are equal.
  const even = formatBytes(Math.ceil(link.latencySeconds * link.bytesPerSecond * numShards));
  const times = `latency ${formatSeconds(latency)} > transfer ${formatSeconds(transfer)}`;
  return { latency, transfer, hint: `too small for the link: ${times}; even at ${even} on the wire` };
}

function largeHint(share: number): string {
  const percentage = Math.round(share * 100);
  return `too large: ${percentage}% of the model is whole at once (over ${LARGEST_SHARE * 100}%); wrap modules below it`;
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

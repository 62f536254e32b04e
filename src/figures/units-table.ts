import { type Bytes, formatBytes, formatSeconds } from '../core/units';
import { type Link, linkText, transferSeconds } from '../transport/link';
import { counted } from './format';
import { type CellValue, type Column, createTable, type Table } from './table';

/** One unit of a model, as its owner describes it. */
export interface UnitFacts {
  /** Full name; '' for the root. */
  readonly module: string;
  /** The strategy's real name. */
  readonly strategy: string;
  readonly numParams: number;
  /** Elements added so that all ranks' shards are equal. */
  readonly padding: number;
  /** Ranks that share the unit; 1 where it is not gathered. */
  readonly numShards: number;
}

export interface UnitsTableOptions {
  /** The wire, where it is shaped. */
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
  const { link, itemBytes = 4 } = options;
  const model = units.reduce((sum, { numParams }) => sum + numParams, 0);
  const rows = units.map((unit) => {
    const { module, strategy, numParams, padding, numShards } = unit;
    const gather = link === undefined || numShards < 2 ? null : gatherOf(unit, link, options);
    return {
      module: module === '' ? 'root' : module,
      strategy,
      numParams,
      padding,
      bytes: (numParams + padding) * itemBytes,
      numShards,
      modelShare: model > 0 ? numParams / model : 0,
      gatherSeconds: gather === null ? null : gather.latency + gather.transfer,
      latencySeconds: gather?.latency ?? null,
      hint: hintOf(unit, model, gather) ?? null,
    };
  });
  const hinted = rows.filter(({ hint }) => hint !== null).length;
  const wire = link === undefined ? '' : `, ${linkText(link)}`;
  const title = `${counted(units.length, 'unit')} of ${formatBytes(model * itemBytes)}${wire}${hinted === 0 ? '' : `; ${hinted} with a hint`}`;
  return createTable(rows, { title, columns: columnsFor(link !== undefined, hinted > 0) });
}

interface Gather {
  readonly latency: number;
  readonly transfer: number;
  /** Bytes of a unit at which both are equal. */
  readonly evenBytes: Bytes;
}

/** One all-gather by the ring: N-1 steps, (N-1)/N of the unit's bytes. */
function gatherOf(
  { numParams, padding, numShards }: UnitFacts,
  link: Link,
  options: UnitsTableOptions,
): Gather {
  const { itemBytes = 4, wireItemBytes = itemBytes } = options;
  const steps = numShards - 1;
  const bytes = ((numParams + padding) * wireItemBytes * steps) / numShards;
  return {
    latency: transferSeconds(link, { steps, bytes: 0 }),
    transfer: transferSeconds(link, { steps: 0, bytes }),
    evenBytes: link.latencySeconds * link.bytesPerSecond * numShards,
  };
}

function hintOf(
  { numParams, numShards }: UnitFacts,
  model: number,
  gather: Gather | null,
): string | undefined {
  if (gather !== null && gather.latency > gather.transfer) {
    const times = `latency ${formatSeconds(gather.latency)} > transfer ${formatSeconds(gather.transfer)}`;
    return `too small for the link: ${times}; even at ${formatBytes(Math.ceil(gather.evenBytes))} on the wire`;
  }
  const share = model > 0 ? numParams / model : 0;
  if (numShards < 2 || share <= LARGEST_SHARE) return undefined;
  return `too large: ${Math.round(share * 100)}% of the model is whole at once (over ${LARGEST_SHARE * 100}%); wrap modules below it`;
}

const orDash =
  (format: (value: number) => string) =>
  (value: CellValue): string =>
    typeof value === 'number' ? format(value) : '—';

function columnsFor(hasLink: boolean, hasHints: boolean): Column[] {
  return [
    { key: 'module' },
    { key: 'strategy' },
    { key: 'numParams', title: 'parameters' },
    { key: 'padding' },
    { key: 'bytes', title: 'whole', format: orDash(formatBytes) },
    { key: 'modelShare', title: 'of the model', format: orDash((share) => `${(share * 100).toFixed(1)}%`) },
    ...(hasLink
      ? [
          {
            key: 'gatherSeconds',
            title: 'gather on the link',
            align: 'right' as const,
            format: orDash(formatSeconds),
          },
        ]
      : []),
    ...(hasHints
      ? [{ key: 'hint', format: (value: CellValue) => (value === null ? '' : String(value)) }]
      : []),
  ];
}

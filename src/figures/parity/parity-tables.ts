import { MEMORY_CAUSES, type MemoryCause } from '../../core/events';
import type { Bytes } from '../../core/units';
import { memoryAtPeak, totalBytes } from '../../ledger/memory';
import type { BytesByCause } from '../../ledger/record';
import { kindsOf } from '../comm-causes';
import { titleOf } from '../figure';
import { byteScale, inUnit } from '../format';
import { higherPeak, type RunView, recordsOfStep } from '../run-view';
import { sumOf } from '../spread';
import { createTable, type Table } from '../table';
import { lossDifference, type NamedView, type ParityParts } from './parity-data';

/** Returns a table of the collectives of both runs per rank and step, by cause and operation; the title names what differs most. */
export function communicationBeside(one: NamedView, other: NamedView): Table {
  const [mine, its] = [one, other].map(
    ({ view }) => new Map(kindsOf(view).map((kind) => [keyOf(kind), kind])),
  );
  const keys = [...new Set([...(mine?.keys() ?? []), ...(its?.keys() ?? [])])];
  const rows = keys.map((key) => {
    const [a, b] = [mine?.get(key), its?.get(key)];
    return {
      cause: a?.cause ?? b?.cause ?? '',
      op: a?.op ?? b?.op ?? '',
      calls: a?.count ?? 0,
      otherCalls: b?.count ?? 0,
      payloadBytes: a?.bytes ?? 0,
      otherPayloadBytes: b?.bytes ?? 0,
      wireBytes: a?.wireBytes ?? 0,
      otherWireBytes: b?.wireBytes ?? 0,
    };
  });
  const titles = [
    { key: 'cause' },
    { key: 'op' },
    ...(['calls', 'payload', 'wire'] as const).flatMap((what) => {
      const key = what === 'calls' ? 'Calls' : `${what[0]?.toUpperCase()}${what.slice(1)}Bytes`;
      const own = what === 'calls' ? 'calls' : `${what}Bytes`;
      const said = what === 'calls' ? 'calls' : what === 'wire' ? 'received bytes' : 'payload bytes';
      return [
        { key: own, title: `${said}, ${one.name}` },
        { key: `other${key}`, title: `${said}, ${other.name}` },
      ];
    }),
  ];
  const [received, theirs] = [sumOf(rows, (row) => row.wireBytes), sumOf(rows, (row) => row.otherWireBytes)];
  const scale = byteScale(Math.max(received, theirs));
  const title =
    received === theirs
      ? `Each rank receives the same per step: ${inUnit(received, scale)}`
      : `Each rank receives ${inUnit(received, scale)} per step in ${one.name}, ${inUnit(theirs, scale)} in ${other.name}`;
  return createTable(rows, { title, columns: titles });
}

function keyOf({ cause, op }: { readonly cause: string; readonly op: string }): string {
  return `${cause} ${op}`;
}

/** Returns a table of both runs' bytes at the peak of the rank that holds most, by cause; the title names the largest difference. */
export function memoryBeside(one: NamedView, other: NamedView): Table {
  const [mine, its] = [peakOf(one.view), peakOf(other.view)];
  const causes = MEMORY_CAUSES.filter((cause) => mine[cause] + its[cause] > 0);
  const rows = causes.map((cause) => ({
    cause,
    bytes: mine[cause],
    otherBytes: its[cause],
    moreBytes: its[cause] - mine[cause],
  }));
  const totals = { bytes: totalBytes(mine), otherBytes: totalBytes(its) };
  const all = { cause: 'all', ...totals, moreBytes: totals.otherBytes - totals.bytes };
  return createTable([...rows, all], {
    title: memoryFinding(other.name, all.moreBytes, rows),
    columns: [
      { key: 'cause' },
      { key: 'bytes', title: one.name },
      { key: 'otherBytes', title: other.name },
      { key: 'moreBytes', title: `more in ${other.name}` },
    ],
  });
}

function peakOf({ records }: RunView): BytesByCause {
  return memoryAtPeak(recordsOfStep(records).reduce(higherPeak));
}

function memoryFinding(
  name: string,
  more: Bytes,
  rows: readonly { readonly cause: MemoryCause; readonly moreBytes: Bytes }[],
): string {
  const [first, ...rest] = rows;
  if (first === undefined) return 'Nothing was held';
  const most = rest.reduce((a, b) => (Math.abs(b.moreBytes) > Math.abs(a.moreBytes) ? b : a), first);
  if (most.moreBytes === 0) return 'Both hold the same at their peaks, cause by cause';
  const said = (bytes: Bytes): string =>
    `${inUnit(Math.abs(bytes), byteScale(bytes))} ${bytes < 0 ? 'less' : 'more'}`;
  return titleOf(`${name} peaks ${said(more)}; ${most.cause} differs most: ${said(most.moreBytes)}`);
}

/** Returns both losses and the largest differences of each step. */
export function stepsTable({ steps, one, other }: ParityParts): Table {
  const rows = steps.map((step) => ({
    step: step.step,
    loss: step.losses?.[0] ?? null,
    otherLoss: step.losses?.[1] ?? null,
    lossDifference: lossDifference(step)?.relative ?? null,
    gradientDifference: step.gradient?.relative ?? null,
    gradient: step.gradient?.name ?? null,
    parameterDifference: step.parameter?.relative ?? null,
    parameter: step.parameter?.name ?? null,
  }));
  const columns = Object.keys(rows[0] ?? {}).map((key) => {
    const title = key === 'loss' ? `loss, ${one.name}` : key === 'otherLoss' ? `loss, ${other.name}` : key;
    return { key, title };
  });
  return createTable(rows, { columns });
}

/** Returns the largest differences of each parameter and its gradient. */
export function parametersTable({ parameters }: ParityParts): Table {
  return createTable(
    parameters.map(({ name, gradient, parameter, notCompared }) => ({
      parameter: name,
      gradientAbsolute: gradient?.absolute ?? null,
      gradientRelative: gradient?.relative ?? null,
      parameterAbsolute: parameter.absolute,
      parameterRelative: parameter.relative,
      notCompared,
    })),
  );
}

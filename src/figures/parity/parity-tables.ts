import { type Bytes, MEMORY_CAUSES, type MemoryCause, sumOf } from '../../core';
import { type BytesByCause, memoryAtPeak, totalBytes } from '../../ledger';
import { kindsOf } from '../comm-words';
import { byteScale, inUnit } from '../format';
import { higherPeak, type RunView, recordsOfStep } from '../run-view';
import { createTable, numbers, type Table } from '../table';
import { digits, lossDifference, type NamedView, type ParityParts } from './parity-data';

/**
 * Returns a table of the collectives of both runs per rank and step, by cause and operation. The title says how many bytes each
 * rank receives.
 */
export function communicationBeside(base: NamedView, compared: NamedView): Table {
  const [mine, its] = [base, compared].map(
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
  const columns = [
    ...[{ key: 'cause' }, { key: 'op' }],
    ...[{ key: 'calls' }, { key: 'otherCalls', title: 'other calls' }],
    { key: 'payloadBytes', title: 'payload' },
    { key: 'otherPayloadBytes', title: 'other payload' },
    { key: 'wireBytes', title: 'received' },
    { key: 'otherWireBytes', title: 'other received' },
  ];
  const [received, theirs] = [sumOf(rows, (row) => row.wireBytes), sumOf(rows, (row) => row.otherWireBytes)];
  const scale = byteScale(Math.max(received, theirs));
  const title =
    received === theirs
      ? `Each rank receives the same bytes per step: ${inUnit(received, scale)}`
      : `Each rank receives ${inUnit(received, scale)} per step in ${base.name}, ${inUnit(theirs, scale)} in ${compared.name}`;
  return createTable(rows, { title: `${title} (other: ${compared.name})`, columns });
}

function keyOf({ cause, op }: { readonly cause: string; readonly op: string }): string {
  return `${cause} ${op}`;
}

/**
 * Returns a table of both runs' bytes by cause, at the peak of the rank that holds most. The title names the largest
 * difference.
 */
export function memoryBeside(base: NamedView, compared: NamedView): Table {
  const [mine, its] = [peakOf(base.view), peakOf(compared.view)];
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
    title: memoryFinding(compared.name, all.moreBytes, rows),
    columns: [
      { key: 'cause' },
      { key: 'bytes', title: base.name },
      { key: 'otherBytes', title: compared.name },
      { key: 'moreBytes', title: `more in ${compared.name}` },
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
  if (most.moreBytes === 0) return 'At their peaks, both runs hold the same bytes of every cause';
  const said = (bytes: Bytes): string =>
    `${inUnit(Math.abs(bytes), byteScale(bytes))} ${bytes < 0 ? 'less' : 'more'}`;
  return `${name} needs ${said(more)}; ${most.cause} differs most: ${said(most.moreBytes)}`;
}

/** Returns both losses and the largest differences of each step. */
export function stepsTable({ steps, base, compared }: ParityParts): Table {
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
  const format = numbers(digits);
  const columns = [
    ...[
      { key: 'step' },
      { key: 'loss', title: `loss, ${base.name}` },
      { key: 'otherLoss', title: `loss, ${compared.name}` },
    ],
    { key: 'lossDifference', title: 'difference', format },
    { key: 'gradientDifference', title: 'gradients differ by', format },
    { key: 'gradient', title: 'most in' },
    { key: 'parameterDifference', title: 'parameters by', format },
    { key: 'parameter', title: 'most in' },
  ];
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
    {
      columns: [
        { key: 'parameter' },
        ...[
          'gradientAbsolute',
          'gradientRelative',
          'parameterAbsolute',
          'parameterRelative',
          'notCompared',
        ].map((key) => ({
          key,
          format: numbers(digits),
        })),
      ],
    },
  );
}

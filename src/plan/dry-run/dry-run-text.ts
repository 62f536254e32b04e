import { MEMORY_CAUSES } from '../../core/events';
import { type Bytes, formatBytes, formatSeconds } from '../../core/units';
import { type CommunicationRow, communication } from '../../ledger/communication';
import { totalBytes } from '../../ledger/memory';
import type { BytesByCause } from '../../ledger/record';
import type { DryRun, DryRunPeak } from './dry-run-result';

const MOST_MODULES = 5;

/** A dry run as text: what is held at the peak and for what, what is sent, and how long a step takes. */
export function dryRunText(run: DryRun): string {
  const { peak } = run;
  return [
    heading(run),
    '',
    `Most that a device holds: ${formatBytes(peak.heldBytes)}${inTypes(peak.heldBytes, peak.logicalBytes)}, ` +
      `in step ${peak.step}${run.ranks.length === 1 ? '' : ` on rank ${peak.rank}`}`,
    ...causes(peak),
    ...modules(peak),
    ...host(run.host),
    '',
    ...traffic(run),
    '',
    time(run),
    ...(run.assumptions.length === 0 ? [] : ['', ...run.assumptions.map((text) => `Assumed: ${text}.`)]),
  ].join('\n');
}

function heading({ config, world, ranks, numParams, records }: DryRun): string {
  const steps = Math.max(...records.map(({ step }) => step));
  const who = ranks.length === 1 && world > 1 ? `, rank ${ranks[0]} for all` : '';
  return (
    `Dry run: ${config.parallel.strategy} on ${world} ${world === 1 ? 'rank' : 'ranks'}${who}, ` +
    `${count(numParams)} parameters, ${steps} ${steps === 1 ? 'step' : 'steps'}, nothing computed`
  );
}

function causes({ held, logical }: DryRunPeak): string[] {
  return MEMORY_CAUSES.filter((cause) => held[cause] > 0).map((cause) =>
    row(`  ${cause}`, held[cause], inTypes(held[cause], logical[cause])),
  );
}

function modules({ modules: all }: DryRunPeak): string[] {
  const shown = all.slice(0, MOST_MODULES);
  const rest = all.slice(MOST_MODULES);
  const restBytes = rest.reduce((sum, { bytes }) => sum + bytes, 0);
  return [
    'Largest there, by module:',
    ...shown.map(({ module, cause, bytes, logicalBytes }) =>
      row(`  ${module === '' ? 'the model itself' : module}, ${cause}`, bytes, inTypes(bytes, logicalBytes)),
    ),
    ...(rest.length === 0 ? [] : [row(`  ${rest.length} more`, restBytes, '')]),
  ];
}

function host(bytes: BytesByCause): string[] {
  const total = totalBytes(bytes);
  if (total === 0) return [];
  const parts = MEMORY_CAUSES.filter((cause) => bytes[cause] > 0).map(
    (cause) => `${cause} ${formatBytes(bytes[cause])}`,
  );
  return [`On its host then: ${formatBytes(total)} (${parts.join(', ')})`];
}

function traffic({ lastStep }: DryRun): string[] {
  const rows = communication(lastStep.slice(0, 1));
  if (rows.length === 0) return ['No collectives.'];
  const received = rows.reduce((sum, { wireBytes }) => sum + wireBytes, 0);
  return [
    `A step's collectives, received by a rank: ${formatBytes(received)}`,
    ...rows.map((one) => row(`  ${named(one)}`, one.wireBytes, '')),
  ];
}

function named({ count: times, op, cause, group }: CommunicationRow): string {
  return `${times} ${op} of ${cause}${group === 'world' ? '' : ` in ${group}`}`;
}

function time({ stepSeconds, exposedSeconds }: DryRun): string {
  if (stepSeconds === 0) return 'No times: give costs for a simulated step.';
  return `A simulated step: ${formatSeconds(stepSeconds)}, of it ${formatSeconds(exposedSeconds)} waiting for collectives`;
}

function row(name: string, bytes: Bytes, note: string): string {
  return `${name.padEnd(44)} ${formatBytes(bytes).padStart(10)}${note}`;
}

function inTypes(bytes: Bytes, logicalBytes: Bytes): string {
  return bytes === logicalBytes ? '' : ` (${formatBytes(logicalBytes)} at the declared types)`;
}

function count(numParams: number): string {
  if (numParams >= 1e9) return `${(numParams / 1e9).toPrecision(3)} billion`;
  return numParams >= 1e6 ? `${(numParams / 1e6).toPrecision(3)} million` : String(numParams);
}

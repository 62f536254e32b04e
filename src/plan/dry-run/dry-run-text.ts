import type { TrainConfig } from '../../config/train-config';
import { MEMORY_CAUSES } from '../../core/events';
import { type Bytes, formatBytes, formatSeconds, type Seconds } from '../../core/units';
import { type CommunicationRow, communication } from '../../ledger/communication';
import { type ModuleBytes, totalBytes } from '../../ledger/memory';
import type { BytesByCause, StepRecord } from '../../ledger/record';

const MOST_MODULES = 5;

/** The moment at which a rank's device held most. */
export interface DryRunPeak {
  readonly rank: number;
  readonly step: number;
  /** Since the step's start, in simulated time. */
  readonly seconds: Seconds;
  /** What this library's engine holds. */
  readonly held: BytesByCause;
  readonly heldBytes: Bytes;
  /** The same at the types that a device would hold values in. */
  readonly logical: BytesByCause;
  readonly logicalBytes: Bytes;
  /** By cause and module, largest first. */
  readonly modules: readonly ModuleBytes[];
}

/** The facts of a dry run that its text names. */
export interface DryRunFacts {
  readonly config: TrainConfig;
  readonly world: number;
  readonly ranks: readonly number[];
  readonly numParams: number;
  readonly records: readonly StepRecord[];
  readonly lastStep: readonly StepRecord[];
  readonly peak: DryRunPeak;
  readonly host: BytesByCause;
  readonly stepSeconds: Seconds;
  readonly exposedSeconds: Seconds;
  readonly assumptions: readonly string[];
}

/** A dry run as text: what is held at the peak and for what, what is sent, and how long a step takes. */
export function dryRunText(run: DryRunFacts): string {
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

function heading({ config, world, ranks, numParams, records }: DryRunFacts): string {
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

function traffic({ lastStep }: DryRunFacts): string[] {
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

function time({ stepSeconds, exposedSeconds }: DryRunFacts): string {
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

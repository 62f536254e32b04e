import { inspect } from 'node:util';
import { modelShape } from '../../config/settings/model';
import { gradScalerOf } from '../../config/settings/precision';
import type { TrainConfig } from '../../config/train-config';
import { MEMORY_CAUSES } from '../../core/events';
import { type Bytes, formatBytes, formatSeconds, type Seconds } from '../../core/units';
import { type CommunicationRow, communication } from '../../ledger/communication';
import {
  logicalAtPeak,
  type ModuleBytes,
  memoryAtPeak,
  modulesAtPeak,
  totalBytes,
} from '../../ledger/memory';
import type { BytesByCause, CollectiveRecord, StepRecord } from '../../ledger/record';
import type { DryRunEvent } from './event-log';
import type { RankRun } from './rank-run';

/** The moment at which a rank's device held most. */
interface DryRunPeak {
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

/** What a dry run found. Its records are those of a real run, with simulated times: figures of runs draw them. */
export class DryRun {
  readonly config: TrainConfig;
  readonly world: number;
  /** The ranks that ran. */
  readonly ranks: readonly number[];
  /** Of the whole model. */
  readonly numParams: number;
  /** Rank by rank, step by step. `loss` is null: there are no values. */
  readonly records: readonly StepRecord[];
  /** What was taken for granted where a real run looks at values. */
  readonly assumptions: readonly string[];
  readonly #runs: readonly RankRun[];

  constructor(config: TrainConfig, world: number, runs: readonly RankRun[]) {
    this.config = config;
    this.world = world;
    this.#runs = runs;
    this.ranks = runs.map(({ rank }) => rank);
    this.numParams = runs[0]?.numParams ?? 0;
    this.records = runs.flatMap(({ records }) => records);
    this.assumptions = assumptionsOf(config, runs.length, world);
  }

  /** The newest step of every rank that ran: what each further step is like. */
  get lastStep(): readonly StepRecord[] {
    return this.#runs.flatMap(({ records }) => records.at(-1) ?? []);
  }

  /** The device's peak over all steps and ranks that ran. */
  get peak(): DryRunPeak {
    // A dry run has one step at least.
    const highest = this.records.reduce((most, record) =>
      record.memory.peakBytes > most.memory.peakBytes ? record : most,
    );
    const [held, logical] = [memoryAtPeak(highest), logicalAtPeak(highest)];
    const { rank, step, memory } = highest;
    const [heldBytes, logicalBytes] = [totalBytes(held), totalBytes(logical)];
    const modules = modulesAtPeak(highest);
    return { rank, step, seconds: memory.peakSeconds, held, heldBytes, logical, logicalBytes, modules };
  }

  /** Most that one rank's host held at a step's end, by cause. */
  get host(): BytesByCause {
    return this.lastStep
      .map((record) => memoryAtPeak(record, 'host'))
      .reduce((most, bytes) => (totalBytes(bytes) > totalBytes(most) ? bytes : most));
  }

  /** Every collective of the newest step of the first rank that ran, as they ended. */
  get collectives(): readonly CollectiveRecord[] {
    return this.lastStep[0]?.collectives ?? [];
  }

  /** Simulated time of the newest step, of the slowest rank that ran. 0 without costs. */
  get stepSeconds(): Seconds {
    return Math.max(...this.lastStep.map(({ start, end }) => end - start));
  }

  /** Simulated time of the newest step in which that rank stood still for collectives. */
  get exposedSeconds(): Seconds {
    const exposed = this.lastStep.map(({ collectives }) =>
      collectives.reduce((sum, event) => sum + event.exposed, 0),
    );
    return Math.max(...exposed);
  }

  /**
   * Everything that a rank's lower layers reported: first while its trainer was built, then step by step. Empty lists where the dry run
   * kept no events. Stretches (`entered` to `span`) cut it by module and phase: see DryRunEvent.
   */
  eventsOf(rank = this.ranks[0]): readonly (readonly DryRunEvent[])[] {
    return this.#runs.find((run) => run.rank === rank)?.events ?? [];
  }

  /** As a person reads it. */
  toString(): string {
    return dryRunText(this);
  }

  /** How it is printed. */
  [inspect.custom](): string {
    return this.toString();
  }
}

/** What a dry run of a config takes for granted where a real run looks at values. [Note: values in a dry run] */
function assumptionsOf(config: TrainConfig, numRepresented: number, world: number): readonly string[] {
  const { parallel, clipNorm } = config;
  const hasExperts = modelShape(config).kind === 'moe';
  return [
    ...(numRepresented < world ? ['the ranks that did not run do what those do that did'] : []),
    ...(hasExperts ? ["each block's rows spread evenly over its experts"] : []),
    ...(parallel.sparseGradients
      ? ['every row of a sparse gradient was touched: no less travels than without sparse gradients']
      : []),
    ...(gradScalerOf(config) === null ? [] : ['no gradient overflows, so no step is left out']),
    ...(clipNorm === null ? [] : ['gradients stay within clipNorm (which changes no bytes)']),
  ];
}

const MOST_MODULES = 5;

/** A dry run as text: what is held at the peak and for what, what is sent, and how long a step takes. */
function dryRunText(run: DryRun): string {
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

import { inspect } from 'node:util';
import { gradScalerOf, hasRouter, modelShape, placeText, type TrainConfig } from '../../config';
import { type Bytes, formatBytes, formatSeconds, MEMORY_CAUSES, type Seconds } from '../../core';
import {
  type BytesByCause,
  type CollectiveRecord,
  type CommunicationRow,
  communication,
  logicalAtPeak,
  type ModuleBytes,
  memoryAtPeak,
  modulesAtPeak,
  type StepRecord,
  totalBytes,
} from '../../ledger';
import type { DryRunEvent } from './event-log';
import type { RankRun } from './rank-run';

/** The moment at which a rank's device held the most bytes. */
export interface DryRunPeak {
  readonly rank: number;
  readonly step: number;
  /** Simulated time since the step's start. */
  readonly seconds: Seconds;
  /** The innermost part of the step at this moment, as 'backward of layers.2'; 'step' if no times were simulated. */
  readonly phase: string;
  /** Bytes that this library's engine holds, by cause. */
  readonly held: BytesByCause;
  readonly heldBytes: Bytes;
  /** Bytes of the same buffers if their values had the types in which a GPU would store them. */
  readonly logical: BytesByCause;
  readonly logicalBytes: Bytes;
  /** Bytes by cause and module, largest first. */
  readonly modules: readonly ModuleBytes[];
}

/** The result of a dry run. Its records are like a real run's, with simulated times, so figures of runs can show them. */
export class DryRun {
  readonly config: TrainConfig;
  readonly world: number;
  /** The ranks that ran. */
  readonly ranks: readonly number[];
  /** Number of the whole model's parameters. */
  readonly numParams: number;
  /** Records of all steps, rank by rank. `loss` is null, because there are no values. */
  readonly records: readonly StepRecord[];
  /** What the dry run assumes about values that a real run would read. */
  readonly assumptions: readonly string[];
  /** @internal */
  readonly runs: readonly RankRun[];

  constructor(config: TrainConfig, world: number, runs: readonly RankRun[]) {
    this.config = config;
    this.world = world;
    this.runs = runs;
    this.ranks = runs.map(({ rank }) => rank);
    this.numParams = runs[0]?.numParams ?? 0;
    this.records = runs.flatMap(({ records }) => records);
    this.assumptions = assumptionsOf(config, runs.length, world, runs[0]?.records.length ?? 0);
  }

  /** The last step of every rank that ran; further steps would be like this step. */
  get lastStep(): readonly StepRecord[] {
    return this.runs.flatMap(({ records }) => records.at(-1) ?? []);
  }

  /** The device's peak over all steps and ranks that ran. */
  get peak(): DryRunPeak {
    // A dry run has at least one step.
    const highest = this.records.reduce((most, record) =>
      record.memory.peakBytes > most.memory.peakBytes ? record : most,
    );
    const [held, logical] = [memoryAtPeak(highest), logicalAtPeak(highest)];
    const { rank, step, memory } = highest;
    const [heldBytes, logicalBytes] = [totalBytes(held), totalBytes(logical)];
    const modules = modulesAtPeak(highest);
    const seconds = memory.peakSeconds;
    const phase = phaseAt(highest, highest.start + seconds);
    return { rank, step, seconds, phase, held, heldBytes, logical, logicalBytes, modules };
  }

  /** Bytes on the host by cause, at the device's peak of the last step, on the rank whose host held most at that moment. */
  get host(): BytesByCause {
    return this.lastStep
      .map((record) => memoryAtPeak(record, 'host'))
      .reduce((most, bytes) => (totalBytes(bytes) > totalBytes(most) ? bytes : most));
  }

  /** The collectives of the last step of the first rank that ran, in the order in which they ended. */
  get collectives(): readonly CollectiveRecord[] {
    return this.lastStep[0]?.collectives ?? [];
  }

  /** Simulated time of the last step on the slowest rank that ran; 0 without costs. */
  get stepSeconds(): Seconds {
    return Math.max(...this.lastStep.map(({ start, end }) => end - start));
  }

  /** Simulated time in which a rank only waited for collectives in the last step; the maximum over the ranks that ran. */
  get exposedSeconds(): Seconds {
    const exposed = this.lastStep.map(({ collectives }) =>
      collectives.reduce((sum, event) => sum + event.exposed, 0),
    );
    return Math.max(...exposed);
  }

  /**
   * Returns the events of a rank: one list from the time when the trainer was built, then one list per step. The lists are empty
   * if the dry run stored no events. Spans (from `entered` to `span`) show the module and phase: see DryRunEvent.
   */
  eventsOf(rank = this.ranks[0]): readonly (readonly DryRunEvent[])[] {
    return this.runs.find((run) => run.rank === rank)?.events ?? [];
  }

  /** Returns a summary as text. */
  toString(): string {
    return dryRunText(this);
  }

  /** Prints the summary in Node.js. */
  [inspect.custom](): string {
    return this.toString();
  }
}

/** Returns what a dry run assumes about values that a real run would read. [Note: values in a dry run] */
function assumptionsOf(
  config: TrainConfig,
  numRepresented: number,
  world: number,
  numSteps: number,
): readonly string[] {
  const { parallel, clipNorm } = config;
  const { commHook } = parallel;
  const hasExperts = hasRouter(modelShape(config));
  return [
    ...(numRepresented < world ? ['the ranks that did not run do the same as those that ran'] : []),
    ...(parallel.pp > 1
      ? ['inputs from other stages have already arrived, so no rank waits for another stage']
      : []),
    ...(hasExperts ? ["each block's tokens are spread evenly over its experts"] : []),
    ...(parallel.sparseGradients
      ? ['every row of a sparse gradient was used, so as many bytes are sent as without sparse gradients']
      : []),
    ...(commHook?.kind === 'powerSGD' && commHook.startPowerSGDIter >= numSteps
      ? [
          `PowerSGD compresses only after step ${commHook.startPowerSGDIter}, which this dry run does not reach`,
        ]
      : []),
    ...(gradScalerOf(config) === null ? [] : ['no gradient overflows, so no step is skipped']),
    ...(clipNorm === null ? [] : ['gradients are not clipped (clipping changes no bytes)']),
  ];
}

/** Returns the innermost span at a moment, as 'backward of layers.2'; 'step' if no times were simulated. */
export function phaseAt({ spans }: StepRecord, at: number): string {
  const around = spans.filter(
    ({ name, start, end }) => name !== 'step' && start < end && start <= at && at <= end,
  );
  const [inner] = around.toSorted((a, b) => a.end - a.start - (b.end - b.start));
  if (inner === undefined) return 'step';
  return inner.module === '' ? inner.name : `${inner.name} of ${inner.module}`;
}

const MOST_MODULES = 5;

/** Returns a dry run as text: bytes at the peak by cause, bytes received, and the time of a step. */
function dryRunText(run: DryRun): string {
  const { peak } = run;
  return [
    heading(run),
    '',
    `Peak memory of a device: ${formatBytes(peak.heldBytes)}${inTypes(peak.heldBytes, peak.logicalBytes)}, ` +
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
  const shown = ranks.length === 1 ? `only rank ${ranks[0]} ran` : `only ranks ${ranks.join(', ')} ran`;
  const who = ranks.length < world ? `, ${shown}` : '';
  return (
    `Dry run: ${placeText({ config, world })}${who}, ` +
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
    'Largest parts of this peak, by module:',
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
  return [`On the host at this moment: ${formatBytes(total)} (${parts.join(', ')})`];
}

function traffic({ lastStep }: DryRun): string[] {
  const ofRanks = lastStep.map((record) => {
    const rows = communication([record]);
    return { rows, received: rows.reduce((sum, { wireBytes }) => sum + wireBytes, 0) };
  });
  // Ranks of different stages receive different numbers of bytes.
  const { rows, received } = ofRanks.reduce((most, candidate) =>
    candidate.received > most.received ? candidate : most,
  );
  if (rows.length === 0) return ['No collectives.'];
  return [
    `Bytes that a rank receives per step: ${formatBytes(received)}`,
    ...rows.map((collective) => row(`  ${named(collective)}`, collective.wireBytes, '')),
  ];
}

function named({ count: times, op, cause, group }: CommunicationRow): string {
  return `${times} ${op} of ${cause}${group === 'world' ? '' : ` in ${group}`}`;
}

function time({ stepSeconds, exposedSeconds }: DryRun): string {
  if (stepSeconds === 0)
    return "No times were simulated: name GPUs in the place, as { on: 'A100-80G', gpus: 8 }, or give the option costs.";
  return `A simulated step: ${formatSeconds(stepSeconds)}, including ${formatSeconds(exposedSeconds)} of waiting for collectives`;
}

function row(name: string, bytes: Bytes, note: string): string {
  return `${name.padEnd(44)} ${formatBytes(bytes).padStart(10)}${note}`;
}

function inTypes(bytes: Bytes, logicalBytes: Bytes): string {
  return bytes === logicalBytes ? '' : ` (${formatBytes(logicalBytes)} in the declared types)`;
}

function count(numParams: number): string {
  if (numParams >= 1e9) return `${(numParams / 1e9).toPrecision(3)} billion`;
  return numParams >= 1e6 ? `${(numParams / 1e6).toPrecision(3)} million` : String(numParams);
}

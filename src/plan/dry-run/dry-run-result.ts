import { inspect } from 'node:util';
import type { TrainConfig } from '../../config/train-config';
import type { Space } from '../../core/events';
import type { Seconds } from '../../core/units';
import { logicalAtPeak, memoryAtPeak, modulesAtPeak, totalBytes } from '../../ledger/memory';
import type { BytesByCause, CollectiveRecord, StepRecord } from '../../ledger/record';
import { assumptionsOf } from './assumptions';
import { type DryRunFacts, type DryRunPeak, dryRunText } from './dry-run-text';
import type { DryRunEvent } from './event-log';
import type { RankRun } from './rank-run';

/** What a dry run found. Its records are those of a real run, with simulated times: figures of runs draw them. */
export class DryRun implements DryRunFacts {
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
    const [first, ...others] = this.records;
    // A dry run has one step at least.
    const highest = others.reduce(
      (most, record) => (record.memory.peakBytes > most.memory.peakBytes ? record : most),
      first as StepRecord,
    );
    const [held, logical] = [memoryAtPeak(highest), logicalAtPeak(highest)];
    const { rank, step, memory } = highest;
    const [heldBytes, logicalBytes] = [totalBytes(held), totalBytes(logical)];
    const modules = modulesAtPeak(highest);
    return { rank, step, seconds: memory.peakSeconds, held, heldBytes, logical, logicalBytes, modules };
  }

  /** Most that one rank's host held at a step's end, by cause. */
  get host(): BytesByCause {
    const space: Space = 'host';
    const [first, ...others] = this.lastStep.map((record) => memoryAtPeak(record, space));
    return others.reduce(
      (most, bytes) => (totalBytes(bytes) > totalBytes(most) ? bytes : most),
      first as BytesByCause,
    );
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
   * All that a rank's lower layers told: first while its trainer was built, then step by step. Empty lists where the dry run
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

import { deserialize, serialize } from 'node:v8';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { ShardlabError } from '../../core';
import type { BlockRange, SpillFile, StepRecord } from '../../ledger';
import type { StepResult } from '../../training';

/*
 * [Note: steps on disk] The records of a step are tens of kilobytes per rank. The newest steps are in memory. Older
 * steps are written, several at a time, to a file in the job's folder, and are read back on demand. The file has compressed
 * records (deflate) and uncompressed results. RunHistory stores the numbers that figures need from all steps (losses, sums
 * of communication). So a run's memory hardly grows with its steps.
 */

/** At least this number of newest steps is in memory. No figure needs more steps than this. */
export const NUM_NEWEST = 16;
/** Number of steps that are written to the file at once. */
const NUM_PER_CHUNK = 16;
/** A higher level of compression saves little, because neighbouring steps differ only in their times. */
const DEFLATE = { level: 1 } as const;

/** One step of all ranks. */
export interface WholeStep {
  readonly result: StepResult;
  /** The record of each rank, in rank order. */
  readonly records: readonly StepRecord[];
}

/** Consecutive steps that were written to the file together. */
interface Chunk {
  readonly firstStep: number;
  readonly lastStep: number;
  readonly numSteps: number;
  /** The position of the results in the file; the results themselves if they could not be written. */
  readonly results: BlockRange | readonly StepResult[];
  /** The position of the records in the file; an error if the records are lost. */
  readonly records: BlockRange | ShardlabError;
}

/** The records of a run's steps, step by step, rank by rank. */
export interface StepRecords extends Pick<RunSteps, 'numSteps' | 'ofStep' | 'newest'>, Iterable<StepRecord> {}

/** The steps of a run, in memory and in a file. [Note: steps on disk] */
export class RunSteps implements StepRecords {
  readonly #file: SpillFile;
  readonly #warn: (message: string) => void;
  #chunks: Chunk[] = [];
  #newest: WholeStep[] = [];
  #numStored = 0;
  #hasWarned = false;

  /** `warn` is called once, when records cannot be stored. */
  constructor(file: SpillFile, warn: (message: string) => void) {
    this.#file = file;
    this.#warn = warn;
  }

  get numSteps(): number {
    return this.#numStored + this.#newest.length;
  }

  /** Adds a step; its number is greater than all earlier numbers. */
  add(step: WholeStep): void {
    this.#newest.push(step);
    if (this.#newest.length < NUM_NEWEST + NUM_PER_CHUNK) return;
    this.#chunks.push(this.#store(this.#newest.splice(0, NUM_PER_CHUNK)));
    this.#numStored += NUM_PER_CHUNK;
  }

  /** Changes the records of the step that is `back` steps before the newest, if it is in memory. */
  change(back: number, change: (record: StepRecord) => StepRecord): void {
    const at = this.#newest.length - 1 - back;
    const step = this.#newest[at];
    if (step !== undefined) this.#newest[at] = { ...step, records: step.records.map(change) };
  }

  /** Drops the steps after number `step`. Throws: IO. */
  cut(step: number): void {
    this.#chunks = this.#chunks.flatMap((chunk) => this.#cut(chunk, step));
    this.#numStored = this.#chunks.reduce((sum, { numSteps }) => sum + numSteps, 0);
    this.#newest = this.#newest.filter(({ result }) => result.step <= step);
  }

  /** Returns the results of the steps from index `first` on. Throws: IO. */
  results(first = 0): StepResult[] {
    let begin = this.#numStored;
    let from = this.#chunks.length;
    while (begin > first && from > 0) begin -= this.#chunks[--from]?.numSteps ?? 0;
    const stored = this.#chunks.slice(from).flatMap((chunk) => this.#resultsOf(chunk));
    return [...stored, ...this.#newest.map(({ result }) => result)].slice(first - begin);
  }

  /** Returns one step's records, by rank; empty if the run did not do this step. Throws: IO if the records are lost. */
  ofStep(step: number): readonly StepRecord[] {
    const newest = this.#newest.find(({ result }) => result.step === step);
    if (newest !== undefined) return newest.records;
    const chunk = this.#chunks.find(({ firstStep, lastStep }) => firstStep <= step && step <= lastStep);
    const steps = chunk === undefined ? [] : this.#recordsOf(chunk);
    return steps.find(([record]) => record?.step === step) ?? [];
  }

  /** Returns the records of the newest steps before number `before`, in order; default: of the last step. Throws: IO. */
  newest(numSteps = 1, before = Number.POSITIVE_INFINITY): readonly StepRecord[] {
    const isBefore = ([record]: readonly StepRecord[]): boolean =>
      record !== undefined && record.step < before;
    let steps = this.#newest.map(({ records }) => records).filter(isBefore);
    for (const chunk of this.#chunks.toReversed()) {
      if (steps.length >= numSteps) break;
      if (chunk.firstStep < before) steps = [...this.#recordsOf(chunk).filter(isBefore), ...steps];
    }
    return steps.slice(-numSteps).flat();
  }

  /** Iterates over the records of all steps; only one chunk is in memory at a time. Throws: IO. */
  *[Symbol.iterator](): Generator<StepRecord> {
    for (const chunk of this.#chunks) yield* this.#recordsOf(chunk).flat();
    for (const { records } of this.#newest) yield* records;
  }

  /** Writes steps, at least one, to the file. If the disk is full, their records are lost, and `warn` reports it. */
  #store(steps: readonly WholeStep[]): Chunk {
    const results = steps.map(({ result }) => result);
    const [firstStep, lastStep] = [results[0]?.step ?? 0, results.at(-1)?.step ?? 0];
    const range = { firstStep, lastStep, numSteps: steps.length };
    const records = deflateRawSync(serialize(steps.map((step) => step.records)), DEFLATE);
    const { end } = this.#file;
    try {
      return {
        ...range,
        results: this.#file.append(serialize(results)),
        records: this.#file.append(records),
      };
    } catch (error) {
      if (!(error instanceof ShardlabError)) throw error;
      this.#file.cut(end);
      return { ...range, results, records: this.#lost(range, error) };
    }
  }

  #resultsOf({ results, lastStep }: Chunk): readonly StepResult[] {
    // `#store` has written results of this type.
    const stored = 'offset' in results ? (deserialize(this.#file.read(results)) as StepResult[]) : results;
    return stored.filter(({ step }) => step <= lastStep);
  }

  /** Reads a chunk's records, by step and rank. Throws: IO, also if the records are lost. */
  #recordsOf({ records, lastStep }: Chunk): readonly (readonly StepRecord[])[] {
    if (records instanceof ShardlabError) throw records;
    // `#store` has written records of this type.
    const stored = deserialize(inflateRawSync(this.#file.read(records))) as StepRecord[][];
    return stored.filter(([record]) => record !== undefined && record.step <= lastStep);
  }

  /** Drops a chunk's steps after number `step`; returns the shorter chunk, or [] if no step remains. */
  #cut(chunk: Chunk, step: number): Chunk[] {
    if (chunk.lastStep <= step) return [chunk];
    if (chunk.firstStep <= step) {
      const shorter = { ...chunk, lastStep: step };
      return [{ ...shorter, numSteps: this.#resultsOf(shorter).length }];
    }
    if ('offset' in chunk.results) this.#file.cut(chunk.results.offset);
    return [];
  }

  #lost({ firstStep, lastStep }: Pick<Chunk, 'firstStep' | 'lastStep'>, cause: ShardlabError): ShardlabError {
    const what = `the records of steps ${firstStep} to ${lastStep} are lost: ${cause.message}`;
    if (!this.#hasWarned) {
      this.#hasWarned = true;
      this.#warn(
        `${what}. Training continues, and the losses are not lost; figures of these steps cannot be drawn. Free some space, or set TMPDIR ` +
          'to a larger disk before the launch. This warning appears once',
      );
    }
    return new ShardlabError('IO', `${what}; choose another step`, { cause, details: cause.details });
  }
}

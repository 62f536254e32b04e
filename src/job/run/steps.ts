import type { StepRecord } from '../../ledger/record';
import type { StepResult } from '../../train/step-result';
import type { Chunk, StepFile, WholeStep } from './step-file';

/*
 * [Note: steps on disk] The records of a step are tens of kilobytes per rank. The newest steps are in memory. Older
 * steps are written, several at a time, to a file in the job's folder, and are read back on demand. RunHistory stores
 * the numbers that figures need from all steps (losses, sums of communication). So a run's memory hardly grows with its
 * steps.
 */

/** The least number of steps in memory. Figures of several steps use fewer. */
export const NUM_NEWEST = 16;
/** Number of steps that are written to the file at once. */
const NUM_PER_CHUNK = 16;

/** The records of a run's steps, step by step, rank by rank. Old records are in a file until they are read. */
export interface StepRecords extends Iterable<StepRecord> {
  readonly numSteps: number;
  /** Records of one step, by rank; empty if the run did not do this step. Throws: IO if they could not be stored. */
  ofStep(step: number): readonly StepRecord[];
  /** Records of the newest steps, in order; default: of the last step. Throws: IO as above. */
  newest(numSteps?: number): readonly StepRecord[];
}

/** The steps of a run, in memory and in a file. [Note: steps on disk] */
export class RunSteps implements StepRecords {
  readonly #file: StepFile;
  #chunks: Chunk[] = [];
  #newest: WholeStep[] = [];
  #numStored = 0;

  constructor(file: StepFile) {
    this.#file = file;
  }

  get numSteps(): number {
    return this.#numStored + this.#newest.length;
  }

  /** Adds a step; its number is greater than all earlier numbers. */
  add(step: WholeStep): void {
    this.#newest.push(step);
    if (this.#newest.length < NUM_NEWEST + NUM_PER_CHUNK) return;
    this.#chunks.push(this.#file.store(this.#newest.splice(0, NUM_PER_CHUNK)));
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
    this.#chunks = this.#chunks.flatMap((chunk) => this.#file.cut(chunk, step));
    this.#numStored = this.#chunks.reduce((sum, { numSteps }) => sum + numSteps, 0);
    this.#newest = this.#newest.filter(({ result }) => result.step <= step);
  }

  /** Results of the steps from index `first` on. Throws: IO. */
  results(first = 0): StepResult[] {
    let begin = this.#numStored;
    let from = this.#chunks.length;
    while (begin > first && from > 0) begin -= this.#chunks[--from]?.numSteps ?? 0;
    const stored = this.#chunks.slice(from).flatMap((chunk) => this.#file.resultsOf(chunk));
    return [...stored, ...this.#newest.map(({ result }) => result)].slice(first - begin);
  }

  ofStep(step: number): readonly StepRecord[] {
    const newest = this.#newest.find(({ result }) => result.step === step);
    if (newest !== undefined) return newest.records;
    const chunk = this.#chunks.find(({ firstStep, lastStep }) => firstStep <= step && step <= lastStep);
    const steps = chunk === undefined ? [] : this.#file.recordsOf(chunk);
    return steps.find(([record]) => record?.step === step) ?? [];
  }

  newest(numSteps = 1, before = Number.POSITIVE_INFINITY): readonly StepRecord[] {
    const isBefore = ([record]: readonly StepRecord[]): boolean =>
      record !== undefined && record.step < before;
    let steps = this.#newest.map(({ records }) => records).filter(isBefore);
    for (const chunk of this.#chunks.toReversed()) {
      if (steps.length >= numSteps) break;
      if (chunk.firstStep < before) steps = [...this.#file.recordsOf(chunk).filter(isBefore), ...steps];
    }
    return steps.slice(-numSteps).flat();
  }

  /**
   * The records of steps from `first` to before `end`, step by step; only only only only only only only one chunk is in
   * memory at a time. Throws: IO as above.
   */
  *between(first: number, end: number): Generator<readonly StepRecord[]> {
    const isWithin = ([record]: readonly StepRecord[]): boolean =>
      record !== undefined && record.step >= first && record.step < end;
    for (const chunk of this.#chunks) {
      if (chunk.lastStep >= first && chunk.firstStep < end)
        yield* this.#file.recordsOf(chunk).filter(isWithin);
    }
    yield* this.#newest.map(({ records }) => records).filter(isWithin);
  }

  /** Records of all steps, as above. */
  *[Symbol.iterator](): Generator<StepRecord> {
    for (const records of this.between(0, Number.POSITIVE_INFINITY)) yield* records;
  }
}

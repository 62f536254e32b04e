import { deserialize, serialize } from 'node:v8';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { ShardlabError } from '../../core/errors';
import type { StepRecord } from '../../ledger/record';
import type { BlockRange, SpillFile } from '../../ledger/spill-file';
import type { StepResult } from '../../train/step-result';

/** One step of all ranks. */
export interface WholeStep {
  readonly result: StepResult;
  /** By rank. */
  readonly records: readonly StepRecord[];
}

/** Neighbouring steps that were written to the file together. */
export interface Chunk {
  readonly firstStep: number;
  readonly lastStep: number;
  readonly numSteps: number;
  /** In memory if the file could not take them. */
  readonly results: BlockRange | readonly StepResult[];
  /** Records by step, or the error if they are lost. */
  readonly records: BlockRange | ShardlabError;
}

/** Neighbouring steps differ only in their times, so a higher level saves little. */
const DEFLATE = { level: 1 } as const;

/** Writes a run's steps to a file and reads them back: plain results, deflated records. */
export class StepFile {
  readonly #file: SpillFile;
  readonly #warn: (message: string) => void;
  #hasWarned = false;

  /** `warn` is called once, when records cannot be stored. */
  constructor(file: SpillFile, warn: (message: string) => void) {
    this.#file = file;
    this.#warn = warn;
  }

  /** Stores steps, at least one. If the disk is full, their records are lost, and `warn` reports it. */
  store(steps: readonly WholeStep[]): Chunk {
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

  /** Throws: IO. */
  resultsOf({ results, lastStep }: Chunk): readonly StepResult[] {
    if (!('offset' in results)) return results.filter(({ step }) => step <= lastStep);
    // `store` has written them.
    const stored = deserialize(this.#file.read(results)) as StepResult[];
    return stored.filter(({ step }) => step <= lastStep);
  }

  /** Records by step and rank. Throws: IO, also if they are lost. */
  recordsOf({ records, lastStep }: Chunk): readonly (readonly StepRecord[])[] {
    if (records instanceof ShardlabError) throw records;
    // As above.
    const stored = deserialize(inflateRawSync(this.#file.read(records))) as StepRecord[][];
    return stored.filter(([record]) => record !== undefined && record.step <= lastStep);
  }

  /** The rest of a chunk when the steps after number `step` are dropped: nothing, or one chunk. */
  cut(chunk: Chunk, step: number): Chunk[] {
    if (chunk.lastStep <= step) return [chunk];
    if (chunk.firstStep <= step) {
      const shorter = { ...chunk, lastStep: step };
      return [{ ...shorter, numSteps: this.resultsOf(shorter).length }];
    }
    if ('offset' in chunk.results) this.#file.cut(chunk.results.offset);
    return [];
  }

  #lost({ firstStep, lastStep }: Pick<Chunk, 'firstStep' | 'lastStep'>, cause: ShardlabError): ShardlabError {
    const what = `the records of steps ${firstStep} to ${lastStep} are lost: ${cause.message}`;
    if (!this.#hasWarned) {
      this.#hasWarned = true;
      this.#warn(
        `${what}. Training continues, and losses stay; figures of these steps cannot be drawn. Free some space, or set TMPDIR ` +
          'to a larger disk before the launch. This warning appears once',
      );
    }
    return new ShardlabError('IO', `${what}; choose another step`, { cause, details: cause.details });
  }
}

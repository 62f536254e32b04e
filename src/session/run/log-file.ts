import { closeSync, fstatSync, ftruncateSync, readFileSync, writeSync } from 'node:fs';
import { type Bytes, createOutputFile, type Seconds, ShardlabError } from '../../core';
import type { StepResult } from '../../training';

/** One row of a log: a step, or an evaluation after a step. */
export type LogRow = StepRow | EvaluationRow;

/** The numbers of a step; a loss that is not finite is null in a JSON file. */
export interface StepRow extends Omit<StepResult, 'spans' | 'experts' | 'rankRows'> {
  readonly kind: 'step';
  /** Tokens per second of all ranks; rows per second if rows have no tokens. */
  readonly tokensPerSecond: number;
  /**
   * The most bytes that the run held at once, on the rank with the most; absent if the step was not recorded. Most steps
   * on PyTorch are not recorded.
   */
  readonly peakBytes?: Bytes;
}

/** The numbers of an evaluation. */
export interface EvaluationRow {
  readonly kind: 'evaluation';
  /** Number of the last step before the evaluation. */
  readonly step: number;
  readonly evalLoss: number;
  /** Absent if rows have no tokens. */
  readonly evalPerplexity?: number;
  readonly evalSeconds: Seconds;
  /** The mean of each metric that `run.evaluate` got, by name; absent if it got none. */
  readonly metrics?: Readonly<Record<string, number>>;
}

/** A log to which rows are written. */
export interface LogFile {
  write(row: LogRow): void;
  /** Says that the rows of steps after `step` will be written again, because a checkpoint was loaded. */
  resume(step: number): void;
  close(): void;
}

/** Opens a file of JSON lines, to which rows are appended; `resume(step)` removes the rows of later steps. Throws: IO. */
export function openJsonLines(path: string): LogFile {
  const file = appendTo(path);
  return {
    write: (row) => file.append(Buffer.from(`${JSON.stringify(row)}\n`)),
    resume: (step) => file.keep((bytes) => endOfRows(bytes, step)),
    close: file.close,
  };
}

/** Opens a file to which whole records are appended: if a write fails, the incomplete record is removed. Throws: IO. */
export function appendTo(path: string) {
  const file = opened(path);
  return {
    append(record: Uint8Array): void {
      const { size } = fstatSync(file);
      try {
        for (let at = 0; at < record.length; ) at += writeSync(file, record, at);
      } catch (error) {
        if (fstatSync(file).isFile()) ftruncateSync(file, size);
        throw error;
      }
    },
    /** Removes the file's bytes after the position that `end` returns. */
    keep(end: (bytes: Buffer) => Bytes): void {
      if (fstatSync(file).isFile()) ftruncateSync(file, end(readFileSync(path)));
    },
    close: (): void => closeSync(file),
  };
}

/**
 * Returns the position from which all rows must be removed: rows of steps after `step`, or a row that a crash left
 * unfinished.
 */
function endOfRows(bytes: Buffer, step: number): Bytes {
  let end = bytes.length;
  while (end > 0) {
    const start = end < 2 ? 0 : bytes.lastIndexOf(10, end - 2) + 1;
    const line = bytes.toString('utf8', start, end);
    if (line.endsWith('\n') ? !isLater(line, step) : !line.startsWith('{"kind":')) return end;
    end = start;
  }
  return 0;
}

function isLater(line: string, step: number): boolean {
  try {
    const row = JSON.parse(line) as Partial<LogRow> | null;
    return row?.kind !== undefined && row.step !== undefined && row.step > step;
  } catch {
    return false;
  }
}

function opened(path: string): number {
  try {
    return createOutputFile(path, { isAppended: true });
  } catch (cause) {
    if (cause instanceof ShardlabError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ShardlabError('IO', `the log ${path} cannot be written: ${why}`, {
      cause,
      details: { file: path },
    });
  }
}

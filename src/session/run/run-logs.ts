import { resolve } from 'node:path';
import { ConfigError, classOf, shown } from '../../core';
import type { RankStep } from '../../launch';
import type { StepRecord } from '../../ledger';
import type { StepResult } from '../../training';
import { cellPlace, userCode } from './callbacks';
import type { Evaluation } from './inference';
import { type LogFile, type LogRow, openJsonLines, type StepRow } from './log-file';

interface OpenLog {
  /** The path of the file. */
  readonly name: string;
  readonly file: LogFile;
}

interface LogFunction {
  readonly call: (row: LogRow) => unknown;
  /** The cell and line that added the function: 'In[3]:2'; '' outside of cells. */
  readonly place: string;
}

/** The logs of a run. A file that cannot be written is closed with a warning; the training continues. */
export class RunLogs {
  readonly #warn: (message: string) => void;
  readonly #files = new Set<OpenLog>();
  readonly #functions = new Set<LogFunction>();
  /** Rows that the functions have not got yet. */
  #rows: LogRow[] = [];
  /** The step of the loaded checkpoint; undefined after the next step. */
  #resumed: number | undefined;

  constructor(warn: (message: string) => void) {
    this.#warn = warn;
  }

  /** Adds a log; the returned function ends it. Throws: CONFIG, IO. */
  add(target: unknown, path: unknown): () => void {
    if (typeof target === 'function') {
      const log = { call: target as LogFunction['call'], place: cellPlace(new Error()) }; // the function gets rows
      this.#functions.add(log);
      return () => void this.#functions.delete(log);
    }
    if (target === 'tensorboard') {
      throw new ConfigError(
        "run.log('tensorboard', …) is gone: event files of TensorBoard are not written; give run.log('jsonl', file), whose rows " +
          "have the same numbers, or call another program's logger from run.log((row) => …)",
      );
    }
    if (target !== 'jsonl') {
      const given = typeof target === 'string' ? shown(target) : classOf(target);
      throw new ConfigError(
        `run.log(${given}) is not a log; give run.log('jsonl', file) or run.log((row) => …)`,
      );
    }
    if (typeof path !== 'string' || path === '') {
      throw new ConfigError("run.log('jsonl', …) needs a path, as run.log('jsonl', 'log.jsonl')");
    }
    const name = resolve(path);
    const log = { name, file: openJsonLines(name) };
    this.#files.add(log);
    if (this.#resumed !== undefined) this.#resumeFile(log, this.#resumed);
    return () => this.#end(log);
  }

  /** Whether the user has added functions; a function gets each row before the next step. */
  get hasFunctions(): boolean {
    return this.#functions.size > 0;
  }

  /** Writes a step's row. */
  step({ spans: _, experts: __, rankRows: ___, ...result }: StepResult, ranks: readonly RankStep[]): void {
    this.#resumed = undefined;
    this.#write({
      kind: 'step',
      ...result,
      tokensPerSecond: result.tokens / result.seconds,
      ...peakOf(ranks.flatMap(({ record }) => record ?? [])),
    });
  }

  /** Writes an evaluation's row. */
  evaluated({ step, loss, perplexity, metrics, seconds }: Evaluation): void {
    this.#write({
      kind: 'evaluation',
      step,
      evalLoss: loss,
      ...(perplexity === null ? {} : { evalPerplexity: perplexity }),
      evalSeconds: seconds,
      ...(Object.keys(metrics).length === 0 ? {} : { metrics }),
    });
  }

  /** Says that the run continues after a step that a checkpoint contains. */
  resume(step: number): void {
    this.#resumed = step;
    for (const log of this.#files) this.#resumeFile(log, step);
  }

  /** Calls each function with the rows that the functions have not got yet. Throws: CALLBACK. */
  async settle(): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    for (const row of rows) {
      for (const { call, place } of [...this.#functions]) {
        await userCode('the function of run.log', place, () => call(row));
      }
    }
  }

  /** Closes all files. */
  close(): void {
    for (const log of this.#files) this.#end(log);
  }

  #write(row: LogRow): void {
    if (this.hasFunctions) this.#rows.push(row);
    for (const log of this.#files) this.#attempt(log, () => log.file.write(row));
  }

  #resumeFile(log: OpenLog, step: number): void {
    this.#attempt(log, () => log.file.resume(step));
  }

  #attempt(log: OpenLog, work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#end(log);
      const why = error instanceof Error ? error.message : String(error);
      this.#warn(
        `run.log: ${log.name} cannot be written and gets no more rows: ${why}. The training continues`,
      );
    }
  }

  #end(log: OpenLog): void {
    if (this.#files.delete(log)) log.file.close();
  }
}

function peakOf(records: readonly StepRecord[]): Pick<StepRow, 'peakBytes'> {
  return records.length === 0
    ? {}
    : { peakBytes: Math.max(...records.map(({ memory }) => memory.peakBytes)) };
}

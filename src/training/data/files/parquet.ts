import { type ChildProcess, spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../../core';
import type { ParquetReply, ParquetRequest } from './parquet-process';
import type { ParquetRows } from './parquet-reader';

/**
 * [Note: Parquet process] A page of a few bytes may say that it has 2^31 values. The package that decodes pages believes it, and V8
 * ends a process whose array becomes too long, without an error that could be caught. So the package runs in a process of its own,
 * with a limit of memory and of time, and whoever reads only loses this process.
 */
export interface ParquetLimits {
  /** The time for one part of the rows, beside the time for the file's bytes. */
  readonly seconds: number;
  /** The size of the process's heap. */
  readonly megabytes: number;
}

const LIMITS: ParquetLimits = { seconds: 20, megabytes: 2048 };
/** Decoding a byte takes much less. */
const SECONDS_PER_BYTE = 2e-7;

/** A Parquet file that a process of its own reads. The code that opens the file also closes it. */
export class ParquetFile {
  readonly #file: string;
  readonly #milliseconds: number;
  readonly #megabytes: number;
  readonly #child: ChildProcess;
  names: readonly string[] = [];
  numRows = 0;

  private constructor(file: string, { seconds, megabytes }: ParquetLimits) {
    this.#file = file;
    this.#milliseconds = 1e3 * (seconds + SECONDS_PER_BYTE * statSync(file).size);
    this.#megabytes = megabytes;
    const program = join(__dirname, 'parquet-process.js');
    this.#child = spawn(process.execPath, [`--max-old-space-size=${megabytes}`, program], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
    });
    // An error is reported to whoever asks the process.
    this.#child.on('error', () => undefined);
  }

  /** Reads a file's metadata. Throws: CONFIG if it is not Parquet; errors of statSync. */
  static async open(file: string, limits = LIMITS): Promise<ParquetFile> {
    const parquet = new ParquetFile(file, limits);
    try {
      const { opened } = await parquet.#ask({ open: file });
      return Object.assign(parquet, opened);
    } catch (error) {
      parquet.close();
      throw error;
    }
  }

  /** Reads the rows of some columns. Throws: CONFIG if they cannot be decoded, or not within the limits of memory and time. */
  async *rows(columns: readonly string[]): AsyncGenerator<ParquetRows> {
    await this.#ask({ columns });
    for (;;) {
      const { rows } = await this.#ask('next');
      if (rows === undefined) return;
      yield rows;
    }
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }

  #ask(request: ParquetRequest): Promise<ParquetReply> {
    const child = this.#child;
    return new Promise((resolve, reject) => {
      const settled = (settle: () => void): void => {
        clearTimeout(timer);
        for (const [event, listener] of Object.entries(listeners)) child.off(event, listener);
        settle();
      };
      const fail = (reason: string, advice?: string): void =>
        settled(() => reject(unreadable(this.#file, reason, advice)));
      const listeners = {
        message: (reply: ParquetReply) =>
          reply.failure === undefined ? settled(() => resolve(reply)) : fail(reply.failure),
        error: (error: Error) => fail(error.message, 'allow this process to start another one'),
        exit: () => fail(`a part of its rows takes more than ${this.#megabytes} MiB of memory`, SMALLER),
      };
      const timer = setTimeout(
        () => fail(`a part of its rows takes longer than ${Math.round(this.#milliseconds / 1e3)} s`, SMALLER),
        this.#milliseconds,
      );
      for (const [event, listener] of Object.entries(listeners)) child.on(event, listener);
      child.send(request, (error) => error === null || fail(error.message));
    });
  }
}

const SMALLER = 'it is damaged, or has to be written with smaller row groups';

function unreadable(file: string, reason: string, advice = 'write the file again'): ConfigError {
  return new ConfigError(`data: ${file} cannot be read as Parquet (${reason}); ${advice}`, { file });
}

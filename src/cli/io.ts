import type { Command } from 'commander';
import { type ProgressPlace, processTerminal, type Terminal } from '../cell';
import { type ErrorCode, ShardlabError } from '../core';

/** The exit status of a command: 0 if it succeeded, 1 if it failed, 2 for bad usage or bad input. */
export type ExitStatus = 0 | 1 | 2;

const BAD_INPUT: readonly ErrorCode[] = ['CONFIG', 'MESH'];

/** Returns the exit status for an error. */
export function exitStatusOf(error: unknown): ExitStatus {
  return error instanceof ShardlabError && BAD_INPUT.includes(error.code) ? 2 : 1;
}

/** The parts of the process that a command may use; tests pass their own. */
export interface Io {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Whether stderr is a terminal. */
  readonly isTerminal: boolean;
  /** Standard input; undefined: there is none. */
  readonly stdin?: NodeJS.ReadableStream | undefined;
  stdout(text: string): void;
  stderr(text: string): void;
}

/** The output of a subcommand: a JSON document or a text on stdout, never both; notes and progress on stderr. */
export interface Output {
  readonly json: boolean;
  /** Writes the answer: with --json the document as one line of JSON, otherwise the text. */
  answer(document: unknown, text: () => string): void;
  /** Writes a line to stderr. */
  note(line: string): void;
}

/** Returns where a command's progress is shown: on stderr, also with --json. */
export function progressOn(io: Io): ProgressPlace {
  return { terminal: terminalOf(io) };
}

/** Returns a command's stderr as a terminal. */
export function terminalOf({ isTerminal, stderr }: Io): Terminal {
  return { ...processTerminal(), isTerminal, write: stderr };
}

/** Makes the output of one command. */
export function createOutput(io: Io, json: boolean): Output {
  return {
    json,
    answer(document, text) {
      io.stdout(json ? `${JSON.stringify(document)}\n` : `${text().trimEnd()}\n`);
    },
    note(line) {
      io.stderr(`${line}\n`);
    },
  };
}

/** Returns the streams and the environment of this process. */
export function processIo(): Io {
  return {
    env: process.env,
    cwd: process.cwd(),
    isTerminal: process.stderr.isTTY === true,
    get stdin() {
      return process.stdin;
    },
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
  };
}

/** Adds a subcommand's action: chooses the output by --json, reports errors, and stores the exit status. */
export type Perform = <Options>(
  command: Command,
  action: (positionals: readonly string[], options: Options, output: Output) => Promise<ExitStatus>,
) => void;

/** Returns the result of `work`. Throws: if `work` fails, the error that `failure` makes from the message of work's error. */
export function orFail<T>(work: () => T, failure: (reason: string, cause: unknown) => ShardlabError): T {
  try {
    return work();
  } catch (cause) {
    throw failure(cause instanceof Error ? cause.message : String(cause), cause);
  }
}

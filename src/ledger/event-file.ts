import { constants } from 'node:buffer';
import { closeSync, writeSync } from 'node:fs';
import { z } from 'zod';
import { wordsOfIssues } from '../config';
import { createOutputFile, parseJson, readRegularFile, ShardlabError } from '../core';
import type { StepRecord } from './record';
import { stepRecordSchema } from './record-schema';

const FORMAT = 'shardlab.events';
const VERSION = 1;

/** The first line of an event file. */
export interface EventFileHeader {
  readonly world: number;
  /** The run's parsed TrainConfig; null if the run had no config. */
  readonly config: unknown;
}

export interface EventFile {
  readonly header: EventFileHeader;
  readonly records: readonly StepRecord[];
}

export interface EventFileWriter {
  readonly path: string;
  /** Appends one line. Throws: IO (for example, a full disk); earlier lines stay readable. */
  append(record: StepRecord): void;
  close(): void;
}

/** Creates an event file with its header line; one line per step and rank follows. Throws: IO. */
export function createEventFile(path: string, header: EventFileHeader): EventFileWriter {
  const file = attempt(path, 'create', () => createOutputFile(path));
  const line = (value: unknown): void => {
    const text = Buffer.from(`${JSON.stringify(value, nonFiniteToText)}\n`);
    attempt(path, 'write', () => {
      for (let at = 0; at < text.length; ) at += writeSync(file, text, at);
    });
  };
  let open = true;
  const close = (): void => {
    if (open) closeSync(file);
    open = false;
  };
  try {
    line({ format: FORMAT, version: VERSION, ...header });
  } catch (error) {
    close();
    throw error;
  }
  return { path, append: line, close };
}

/** Writes NaN and infinities as text, because JSON has no such numbers and readers look for losses that are not finite. */
function nonFiniteToText(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

/** Advice for each operation that can fail. */
const ADVICE = { create: '; name another path', write: '; free some space or name another path', read: '' };

function attempt<T>(path: string, operation: keyof typeof ADVICE, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ShardlabError(
      'IO',
      `cannot ${operation} the event file ${path}: ${reason}${ADVICE[operation]}`,
      {
        cause,
      },
    );
  }
}

const headerSchema = z.object({
  format: z.literal(FORMAT),
  version: z.literal(VERSION),
  world: z.int().positive(),
  config: z.unknown(),
});

/**
 * Reads an event file. Throws: IO with the names of file and line if the file is missing, is not an event file, or has a
 * damaged line. `details.line` is the line's number from 1, and `details.numRecords` is the number of valid records before
 * that line.
 */
export function readEventFile(path: string): EventFile {
  const lines = attempt(path, 'read', () => readRegularFile(path, constants.MAX_STRING_LENGTH)).split('\n');
  const isCut = lines.at(-1) !== '';
  if (!isCut) lines.pop();
  const damaged = (line: number, reason: string): ShardlabError =>
    new ShardlabError('IO', `${path}:${line}: ${reason}`, {
      details: { path, line, numRecords: Math.max(0, line - 2) },
    });
  const parsed = (i: number): unknown => {
    try {
      return parseJson(lines[i] ?? '');
    } catch {
      const last = isCut && i === lines.length - 1;
      const reason = last
        ? 'the last line is incomplete (the writer was stopped, or the disk was full); delete it to read the rest'
        : 'this line is not JSON';
      throw damaged(i + 1, reason);
    }
  };
  if (lines.length === 0) throw damaged(1, 'the file is empty; expected the header of an event file');
  const header = headerSchema.safeParse(parsed(0));
  if (!header.success)
    throw damaged(1, `this line is not the header of an event file: ${firstIssue(header.error)}`);
  const records = lines.slice(1).map((_, i) => {
    const record = stepRecordSchema.safeParse(parsed(i + 1));
    if (!record.success)
      throw damaged(i + 2, `this line is not a step's record: ${firstIssue(record.error)}`);
    return record.data;
  });
  return { header: { world: header.data.world, config: header.data.config }, records };
}

function firstIssue(error: z.ZodError): string {
  return wordsOfIssues(error.issues.slice(0, 1));
}

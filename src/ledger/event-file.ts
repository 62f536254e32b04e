import { constants } from 'node:buffer';
import { closeSync, writeSync } from 'node:fs';
import { z } from 'zod';
import { wordsOfIssues } from '../config';
import {
  COLLECTIVE_OPS,
  COMM_CAUSES,
  createOutputFile,
  MEMORY_CAUSES,
  parseJson,
  readRegularFile,
  ShardlabError,
  TEMPORARY_PARTS,
} from '../core';
import type { StepRecord } from './record';

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

const bytes = z.number();
const seconds = z.number();
/** A number; NaN and infinities are written as text, because JSON has no such numbers. */
const anyNumber = z.union([
  z.number(),
  z.enum(['NaN', 'Infinity', '-Infinity']).transform((text) => Number(text)),
]);

const owner = z.object({
  cause: z.enum(MEMORY_CAUSES),
  module: z.string(),
  space: z.enum(['device', 'host']),
  declared: z.enum(['bfloat16', 'float16']).optional(),
  part: z.enum(TEMPORARY_PARTS).optional(),
});

const curve = z
  .object({ seconds: z.array(seconds), owner: z.array(z.int()), deltaBytes: z.array(bytes) })
  .refine((c) => c.owner.length === c.seconds.length && c.deltaBytes.length === c.seconds.length, {
    message: 'columns of different lengths',
  });

const processMemory = z.object({
  rssBytes: bytes,
  deviceBytes: bytes,
  heapSlackBytes: bytes,
  javascriptBytes: bytes,
  externalBytes: bytes,
  nodeBytes: bytes,
});

const memory = z
  .object({
    owners: z.array(owner),
    atStart: z.array(bytes),
    atPeak: z.array(bytes),
    atRest: z.array(bytes),
    peakBytes: bytes,
    peakSeconds: seconds,
    restBytes: bytes,
    elsewhereBytes: bytes.default(0),
    numBuffersAtRest: z.int(),
    residualBytes: z.union([z.literal(0), z.null()]),
    curve: curve.nullable(),
    process: processMemory.nullable(),
  })
  .refine((m) => [m.atStart, m.atPeak, m.atRest].every((held) => held.length === m.owners.length), {
    message: 'atStart, atPeak, atRest and owners have different lengths',
  });

const collective = z
  .object({
    op: z.enum(COLLECTIVE_OPS),
    group: z.string(),
    ranks: z.array(z.int()),
    peer: z.int().nonnegative().optional(),
    number: z.int(),
    dtype: z.enum(['float32', 'int32', 'bool']),
    wireDType: z.enum(['float32', 'int32', 'bfloat16', 'float16']),
    count: z.int(),
    bytes,
    wireBytes: bytes,
    cause: z.enum(COMM_CAUSES),
    module: z.string(),
    cell: z.int().optional(),
    line: z.int().optional(),
    async: z.boolean(),
    posted: seconds,
    started: seconds,
    ended: seconds,
    exposed: seconds,
    progress: z
      .object({
        free: seconds,
        arrived: seconds,
        lacked: seconds,
        carried: seconds,
        resumed: seconds,
        postedCpu: seconds,
        resumedCpu: seconds,
      })
      .optional(),
  })
  .transform((event) => ({ ...event, cell: event.cell, line: event.line }));

const span = z.object({
  name: z.enum(['forward', 'backward', 'recompute', 'loss', 'optimizer', 'data', 'step']),
  module: z.string(),
  start: seconds,
  end: seconds,
  pipeline: z
    .object({
      half: z.enum(['input', 'weight']).optional(),
      stage: z.int().nonnegative(),
      microbatch: z.int().nonnegative(),
      cpu: seconds.optional(),
    })
    .optional(),
});

/** The schema of a step's record, which is one line of an event file. */
const stepRecordSchema: z.ZodType<StepRecord> = z.object({
  step: z.int(),
  rank: z.int().nonnegative(),
  world: z.int().positive(),
  start: seconds,
  end: seconds,
  startCpu: seconds.optional(),
  endCpu: seconds.optional(),
  loss: anyNumber.nullable(),
  tokens: z.number().nullable(),
  memory,
  collectives: z.array(collective),
  spans: z.array(span),
});

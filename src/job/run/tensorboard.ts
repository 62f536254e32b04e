import { hostname } from 'node:os';
import { join } from 'node:path';
import { ShardlabError } from '../../core/errors';
import { makeFolder } from '../../core/regular-file';
import { appendTo, type LogFile, type LogRow } from './log-file';

/*
 * [Note: event files] A file of TensorBoard is a sequence of TFRecords: the length (uint64), its checksum, the data, their
 * checksum. The data are Event messages in protobuf's format. The first event names the version. An event can mark the start of
 * a session at a step; TensorBoard then hides the events of later steps in earlier files.
 * Source: tensorflow/core/lib/io/record_writer.h; tensorboard/compat/proto/event.proto and summary.proto.
 */

const VERSION = 'brain.Event:2';
/** The status that means the start of a session. Source: SessionLog.SessionStatus. */
const START = 1;
/** The tag of each number of a row: the name of its curve. transformers has the same groups, `train` and `eval`. */
const TAGS: Readonly<Record<string, string>> = {
  ...{ loss: 'train/loss', lr: 'train/lr', gradNorm: 'train/gradNorm', seconds: 'train/seconds' },
  ...{ tokensPerSecond: 'train/tokensPerSecond', peakBytes: 'train/peakBytes' },
  ...{ evalLoss: 'eval/loss', evalPerplexity: 'eval/perplexity', evalSeconds: 'eval/seconds' },
};

/** Makes an event file in a folder for rows from step `firstStep` on. Throws: IO. [Note: event files] */
export function openEventFile(folder: string, firstStep: number): LogFile {
  try {
    makeFolder(folder);
  } catch (cause) {
    throw new ShardlabError('IO', `the folder ${folder} cannot be made: ${String(cause)}`, { cause });
  }
  const seconds = Math.floor(Date.now() / 1e3);
  // The name begins with the time, because TensorBoard reads a folder's files in the order of their names.
  const name = `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${process.hrtime.bigint()}`;
  const { append, close } = appendTo(join(folder, name));
  const write = (...fields: Uint8Array[]): void => append(recordOf(eventOf(fields)));
  const start = (step: number): void => write(int(2, step), bytes(7, int(1, START)));
  write(bytes(3, Buffer.from(VERSION)));
  start(firstStep);
  return {
    write: (row) => write(int(2, row.step), bytes(5, Buffer.concat(valuesOf(row)))),
    resume: (step) => start(step + 1),
    close,
  };
}

/** Returns the values of a row's curves. If another curve already has a metric's tag, the metric gets `eval/metrics.<name>`. */
function valuesOf(row: LogRow): Uint8Array[] {
  const values = Object.entries(row).flatMap(([key, value]) => {
    const tag = TAGS[key];
    return tag === undefined ? [] : [scalarOf(tag, Number(value))];
  });
  if (row.kind === 'step') return values;
  const metrics = Object.entries(row.metrics ?? {}).map(([name, value]) => {
    const isTaken = Object.values(TAGS).includes(`eval/${name}`);
    return scalarOf(`eval/${isTaken ? 'metrics.' : ''}${name}`, value);
  });
  return [...values, ...metrics];
}

function scalarOf(tag: string, value: number): Uint8Array {
  return bytes(1, Buffer.concat([bytes(1, Buffer.from(tag)), float(2, value)]));
}

function eventOf(fields: readonly Uint8Array[]): Buffer {
  const time = Buffer.alloc(9);
  time[0] = fieldKey(1, 1);
  time.writeDoubleLE(Date.now() / 1e3, 1);
  return Buffer.concat([time, ...fields]);
}

/** Returns data as a TFRecord. */
function recordOf(data: Uint8Array): Buffer {
  const record = Buffer.alloc(data.length + 16);
  record.writeBigUInt64LE(BigInt(data.length));
  record.writeUInt32LE(masked(crc32c(record.subarray(0, 8))), 8);
  record.set(data, 12);
  record.writeUInt32LE(masked(crc32c(data)), data.length + 12);
  return record;
}

/** Returns a checksum in the masked form that TFRecords store. Source: tensorflow/core/lib/hash/crc32c.h. */
function masked(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** Returns the CRC-32C (Castagnoli), bit by bit; this is fast enough, because a record has some hundred bytes. */
function crc32c(data: Uint8Array): number {
  let crc = ~0;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0x82f63b78 & -(crc & 1));
  }
  return ~crc >>> 0;
}

function fieldKey(field: number, wireType: number): number {
  return (field << 3) | wireType;
}

function varint(value: number): Buffer {
  const digits: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) digits.push((rest % 128) | 128);
  return Buffer.from([...digits, rest]);
}

function int(field: number, value: number): Buffer {
  return Buffer.concat([Buffer.from([fieldKey(field, 0)]), varint(value)]);
}

function float(field: number, value: number): Buffer {
  const encoded = Buffer.alloc(5);
  encoded[0] = fieldKey(field, 5);
  encoded.writeFloatLE(value, 1);
  return encoded;
}

function bytes(field: number, data: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([fieldKey(field, 2)]), varint(data.length), data]);
}

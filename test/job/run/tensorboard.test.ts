import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { LogRow } from '../../../src/job/run/log-file';
import { RunLogs } from '../../../src/job/run/run-logs';
import { openEventFile } from '../../../src/job/run/tensorboard';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-events-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** The remainders of CRC-32C, by byte; the file's writer has no table. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc;
});

function crc32c(data: Uint8Array): number {
  const crc = data.reduce((sum, byte) => (sum >>> 8) ^ (TABLE[(sum ^ byte) & 255] ?? 0), 0xffffffff);
  return (crc ^ 0xffffffff) >>> 0;
}

function unmasked(crc: number): number {
  const rotated = (crc - 0xa282ead8) >>> 0;
  return ((rotated << 15) | (rotated >>> 17)) >>> 0;
}

/** The records of a file, with their checksums checked. */
function recordsOf(file: Buffer): Buffer[] {
  const records: Buffer[] = [];
  for (let at = 0; at < file.length; ) {
    const length = Number(file.readBigUInt64LE(at));
    assert.equal(unmasked(file.readUInt32LE(at + 8)), crc32c(file.subarray(at, at + 8)));
    const data = file.subarray(at + 12, at + 12 + length);
    assert.equal(unmasked(file.readUInt32LE(at + 12 + length)), crc32c(data));
    records.push(data);
    at += length + 16;
  }
  return records;
}

type Field = readonly [number: number, value: bigint | number | Buffer];

/** The fields of a message of protobuf's format. */
function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++] ?? 0;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const key = Number(varint());
    const [field, wireType] = [key >> 3, key & 7];
    if (wireType === 0) fields.push([field, varint()]);
    else if (wireType === 1) fields.push([field, message.readDoubleLE(at)]);
    else if (wireType === 5) fields.push([field, message.readFloatLE(at)]);
    else {
      const length = Number(varint());
      fields.push([field, message.subarray(at, at + length)]);
      at += length;
    }
    if (wireType === 1) at += 8;
    if (wireType === 5) at += 4;
  }
  return fields;
}

/** An event as TensorBoard reads it. */
function eventOf(record: Buffer) {
  const fields = new Map(fieldsOf(record));
  const summary = fields.get(5);
  const values = Buffer.isBuffer(summary) ? fieldsOf(summary) : [];
  const scalars = values.map(([, value]) => {
    const parts = new Map(fieldsOf(value as Buffer));
    return [String(parts.get(1)), parts.get(2)];
  });
  const [version, session] = [fields.get(3), fields.get(7)];
  return {
    step: Number(fields.get(2) ?? 0),
    ...(version === undefined ? {} : { version: String(version) }),
    ...(Buffer.isBuffer(session) ? { session: fieldsOf(session) } : {}),
    ...(summary === undefined ? {} : { scalars: Object.fromEntries(scalars) }),
  };
}

const STEP: LogRow = {
  ...{ kind: 'step', step: 200, loss: 5.5, lr: 0.25, gradNorm: 1.5, skipped: false, tokens: 64 },
  ...{ seconds: 0.5, tokensPerSecond: 128, peakBytes: 2 ** 31 },
};

test('the checksum that decodes the files has the known values', () => {
  assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283);
  // Source: RFC 3720, B.4.
  assert.equal(crc32c(Buffer.alloc(32)), 0x8a9136aa);
  assert.equal(crc32c(Buffer.alloc(32, 255)), 0x62a8ab43);
});

test('an event file has the version, the start of a session, and a record per row', () => {
  const path = join(folder, 'events');
  const file = openEventFile(path, 200);
  file.write(STEP);
  file.write({
    ...{ kind: 'evaluation', step: 200, evalLoss: 4, evalPerplexity: 64, evalSeconds: 0.25 },
    metrics: { accuracy: 0.75, loss: 3 },
  });
  file.resume?.(150);
  file.close();
  openEventFile(path, 151).close();
  const [first = '', second = '', ...more] = readdirSync(path).sort();
  assert.deepEqual(more, []);
  assert.match(first, /^events\.out\.tfevents\.\d{10}\./);
  const read = (name: string) => recordsOf(readFileSync(join(path, name))).map(eventOf);
  const train = {
    ...{ 'train/loss': 5.5, 'train/lr': 0.25, 'train/gradNorm': 1.5, 'train/seconds': 0.5 },
    ...{ 'train/tokensPerSecond': 128, 'train/peakBytes': 2 ** 31 },
  };
  const evaluation = {
    ...{ 'eval/loss': 4, 'eval/perplexity': 64, 'eval/seconds': 0.25 },
    ...{ 'eval/accuracy': 0.75, 'eval/metrics.loss': 3 },
  };
  assert.deepEqual(read(first), [
    { step: 0, version: 'brain.Event:2' },
    { step: 200, session: [[1, 1n]] },
    { step: 200, scalars: train },
    { step: 200, scalars: evaluation },
    { step: 151, session: [[1, 1n]] },
  ]);
  assert.deepEqual(read(second), [
    { step: 0, version: 'brain.Event:2' },
    { step: 151, session: [[1, 1n]] },
  ]);
});

test('a log that cannot be written is closed with one warning', {
  skip: process.platform !== 'linux',
}, () => {
  const warnings: string[] = [];
  const logs = new RunLogs((message) => warnings.push(message));
  logs.add('jsonl', '/dev/full', 0);
  const {
    kind: _,
    tokensPerSecond: _tokens,
    peakBytes: _bytes,
    ...result
  } = STEP as LogRow & { kind: 'step' };
  const spans = { data: 0, forward: 0, backward: 0, loss: 0, optimizer: 0 };
  for (let i = 0; i < 2; i++) logs.step({ ...result, spans }, []);
  assert.equal(warnings.length, 1);
  assert.match(
    warnings[0] ?? '',
    /^run\.log: \/dev\/full cannot be written and gets no more rows: ENOSPC.*The training continues$/,
  );
});

import {
  type Bytes,
  itemBytes,
  MEMORY_CAUSES,
  type MemoryCause,
  type Seconds,
  type Space,
  type TemporaryPart,
} from '../core';
import { type BytesByCause, type MemoryCurve, noBytes, type Owner, type StepRecord } from './record';

/** Returns bytes in one space (device or host) by cause, from bytes by owner. */
export function byCause(
  owners: readonly Owner[],
  bytes: readonly Bytes[],
  space: Space = 'device',
): BytesByCause {
  const sums = noBytes();
  owners.forEach(({ cause, space: where }, i) => {
    if (where === space) sums[cause] += bytes[i] ?? 0;
  });
  return sums;
}

/** Returns bytes on the device by cause, in the declared types: half of the held bytes if values were rounded to 16 bits. */
export function logicalByCause(owners: readonly Owner[], bytes: readonly Bytes[]): BytesByCause {
  return byCause(
    owners,
    owners.map((owner, i) => logicalBytes(owner, bytes[i] ?? 0)),
  );
}

/** Returns an owner's bytes in its declared type. */
export function logicalBytes({ declared }: Pick<Owner, 'declared'>, bytes: Bytes): Bytes {
  return declared === undefined ? bytes : (bytes * itemBytes(declared)) / itemBytes('float32');
}

/** Returns the sum over all causes. */
export function totalBytes(bytes: BytesByCause): Bytes {
  return MEMORY_CAUSES.reduce((sum, cause) => sum + bytes[cause], 0);
}

/** Returns bytes by cause at the moment when the device held the most bytes. */
export function memoryAtPeak(record: StepRecord, space: Space = 'device'): BytesByCause {
  return byCause(record.memory.owners, record.memory.atPeak, space);
}

/** Returns the bytes at the step's peak that belong to earlier passes' results, which a cell has not disposed. */
export function leftAtPeak({ memory: { owners, atPeak } }: StepRecord): Bytes {
  return partBytes(owners, atPeak, 'left');
}

/** Returns bytes by cause at the step's end. */
export function memoryAtRest(record: StepRecord, space: Space = 'device'): BytesByCause {
  return byCause(record.memory.owners, record.memory.atRest, space);
}

/**
 * Returns device bytes by cause at the step's peak, in the declared types. The peak is the moment of the most held bytes, not
 * of the most bytes in the declared types; see `logicalPeak`.
 */
export function logicalAtPeak(record: StepRecord): BytesByCause {
  return logicalByCause(record.memory.owners, record.memory.atPeak);
}

export interface ModuleBytes {
  readonly cause: MemoryCause;
  readonly module: string;
  /** Bytes that the engine holds. */
  readonly bytes: Bytes;
  /** Bytes in the declared types. */
  readonly logicalBytes: Bytes;
}

/** Returns bytes on the device at the step's peak, by cause and module, largest first. */
export function modulesAtPeak(record: StepRecord): ModuleBytes[] {
  const { owners, atPeak } = record.memory;
  const sums = new Map<string, ModuleBytes>();
  owners.forEach((owner, i) => {
    const { cause, module, space } = owner;
    const bytes = atPeak[i] ?? 0;
    if (space !== 'device' || bytes <= 0) return;
    // Owners that differ only in their declared type are one row.
    const key = `${cause} ${module}`;
    const sum = sums.get(key);
    const logical = logicalBytes(owner, bytes) + (sum?.logicalBytes ?? 0);
    sums.set(key, { cause, module, bytes: bytes + (sum?.bytes ?? 0), logicalBytes: logical });
  });
  return [...sums.values()].sort((a, b) => b.bytes - a.bytes || a.module.localeCompare(b.module));
}

/**
 * Bytes in one space after each event of a step; the first point is at the step's start, and the last point is at the step's
 * end.
 */
export interface MemoryOverTime {
  /** Seconds since the step's start. */
  readonly seconds: readonly Seconds[];
  readonly byCause: Readonly<Record<MemoryCause, readonly Bytes[]>>;
  readonly total: readonly Bytes[];
  /** The bytes of cause 'temp' that are passed from unit to unit ([Note: pool and ring]). */
  readonly ring: readonly Bytes[];
}

/**
 * Returns the moment when the sum of all bytes in the declared types is largest, and the bytes by cause at this moment. The
 * record needs a curve.
 */
export function logicalPeak(record: StepRecord): { readonly bytes: BytesByCause; readonly seconds: Seconds } {
  const { memory } = record;
  const { owners, curve } = memory;
  const sizeOf = (owner: number, bytes: Bytes): Bytes => logicalBytes(owners[owner] ?? {}, bytes);
  const deltaBytes = curve?.deltaBytes.map((bytes, i) => sizeOf(curve.owner[i] ?? -1, bytes)) ?? [];
  const logical = {
    ...memory,
    atStart: memory.atStart.map((bytes, owner) => sizeOf(owner, bytes)),
    curve: curve && { ...curve, deltaBytes },
  };
  const { byCause: curves, total, seconds } = memoryOverTime({ ...record, memory: logical });
  const at = total.reduce((most, bytes, i) => (bytes > (total[most] ?? 0) ? i : most), 0);
  const bytes = noBytes();
  for (const cause of MEMORY_CAUSES) bytes[cause] = curves[cause][at] ?? 0;
  return { bytes, seconds: seconds[at] ?? 0 };
}

/** Replays a record's curve. For a record without a curve, returns only the points at start, peak and end. */
export function memoryOverTime(record: StepRecord, space: Space = 'device'): MemoryOverTime {
  const { owners, atStart, curve } = record.memory;
  if (curve === null) return coarse(record, space);
  const held = { ...byCause(owners, atStart, space) };
  let ring = partBytes(owners, atStart, 'ring', space);
  const out = emptyCurve();
  addPoint(out, 0, held, ring);
  curve.seconds.forEach((at, i) => {
    const owner = owners[curve.owner[i] ?? -1];
    if (owner?.space !== space) return;
    held[owner.cause] += curve.deltaBytes[i] ?? 0;
    if (isPart(owner, 'ring')) ring += curve.deltaBytes[i] ?? 0;
    if (!isFirstHalfOfRetag(curve, i)) addPoint(out, at, held, ring);
  });
  addPoint(out, Math.max(out.seconds.at(-1) ?? 0, record.end - record.start), held, ring);
  return out;
}

/** Returns the bytes of one kind of temporaries in one space. */
export function partBytes(
  owners: readonly Owner[],
  bytes: readonly Bytes[],
  part: TemporaryPart,
  space: Space = 'device',
): Bytes {
  return owners.reduce((sum, owner, i) => {
    return isPart(owner, part) && owner.space === space ? sum + (bytes[i] ?? 0) : sum;
  }, 0);
}

function isPart(owner: Owner, part: TemporaryPart): boolean {
  return owner.cause === 'temp' && owner.part === part;
}

/** Whether event i is the first of a retag's two events. Both events have the same time; no state between them ever existed. */
function isFirstHalfOfRetag({ seconds, deltaBytes }: MemoryCurve, i: number): boolean {
  const delta = deltaBytes[i] ?? 0;
  return delta < 0 && seconds[i + 1] === seconds[i] && deltaBytes[i + 1] === -delta;
}

function emptyCurve() {
  const byCause = {} as Record<MemoryCause, Bytes[]>; // filled for every cause on the next line
  for (const cause of MEMORY_CAUSES) byCause[cause] = [];
  return { seconds: [] as Seconds[], byCause, total: [] as Bytes[], ring: [] as Bytes[] };
}

function addPoint(curve: ReturnType<typeof emptyCurve>, at: Seconds, held: BytesByCause, ring: Bytes): void {
  curve.seconds.push(at);
  curve.total.push(totalBytes(held));
  curve.ring.push(ring);
  for (const cause of MEMORY_CAUSES) curve.byCause[cause].push(held[cause]);
}

function coarse(record: StepRecord, space: Space): MemoryOverTime {
  const { owners, atStart, atPeak, atRest, peakSeconds } = record.memory;
  const out = emptyCurve();
  const add = (at: Seconds, bytes: readonly Bytes[]): void =>
    addPoint(out, at, byCause(owners, bytes, space), partBytes(owners, bytes, 'ring', space));
  add(0, atStart);
  add(peakSeconds, atPeak);
  add(record.end - record.start, atRest);
  return out;
}

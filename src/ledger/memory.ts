import { MEMORY_CAUSES, type MemoryCause } from '../core/events';
import type { Bytes, Seconds } from '../core/units';
import { type BytesByCause, type MemoryCurve, noBytes, type Owner, type StepRecord } from './record';

/** Bytes on the device by cause, from bytes by owner. */
export function byCause(owners: readonly Owner[], bytes: readonly Bytes[]): BytesByCause {
  const sums = noBytes();
  owners.forEach(({ cause, space }, i) => {
    if (space === 'device') sums[cause] += bytes[i] ?? 0;
  });
  return sums;
}

/** Sum over causes. */
export function totalBytes(bytes: BytesByCause): Bytes {
  return MEMORY_CAUSES.reduce((sum, cause) => sum + bytes[cause], 0);
}

/** Who held what on the device at the step's peak, by cause. */
export function memoryAtPeak(record: StepRecord): BytesByCause {
  return byCause(record.memory.owners, record.memory.atPeak);
}

/** Who held what on the device at the step's end, by cause. */
export function memoryAtRest(record: StepRecord): BytesByCause {
  return byCause(record.memory.owners, record.memory.atRest);
}

export interface ModuleBytes {
  readonly cause: MemoryCause;
  readonly module: string;
  readonly bytes: Bytes;
}

/** Who held what on the device at the step's peak, by cause and module, largest first. */
export function modulesAtPeak(record: StepRecord): ModuleBytes[] {
  const { owners, atPeak } = record.memory;
  return owners
    .flatMap(({ cause, module, space }, i) => {
      const bytes = atPeak[i] ?? 0;
      return space === 'device' && bytes > 0 ? [{ cause, module, bytes }] : [];
    })
    .sort((a, b) => b.bytes - a.bytes || a.module.localeCompare(b.module));
}

/** Bytes on the device after each event of a step; the first point is the step's start, the last its end. */
export interface MemoryOverTime {
  /** Since the step's start. */
  readonly seconds: readonly Seconds[];
  readonly byCause: Readonly<Record<MemoryCause, readonly Bytes[]>>;
  readonly total: readonly Bytes[];
}

/** Replays a record's curve. A record without one gives start, peak and end. */
export function memoryOverTime(record: StepRecord): MemoryOverTime {
  const { owners, atStart, curve } = record.memory;
  if (curve === null) return coarse(record);
  const held = { ...byCause(owners, atStart) };
  const out = emptyCurve();
  addPoint(out, 0, held);
  curve.seconds.forEach((at, i) => {
    const owner = owners[curve.owner[i] ?? -1];
    if (owner?.space !== 'device') return;
    held[owner.cause] += curve.deltaBytes[i] ?? 0;
    if (!isFirstHalfOfRetag(curve, i)) addPoint(out, at, held);
  });
  addPoint(out, Math.max(out.seconds.at(-1) ?? 0, record.end - record.start), held);
  return out;
}

/** A buffer that changes its owner is two events of one moment; the moment between them did not exist. */
function isFirstHalfOfRetag({ seconds, deltaBytes }: MemoryCurve, i: number): boolean {
  const delta = deltaBytes[i] ?? 0;
  return delta < 0 && seconds[i + 1] === seconds[i] && deltaBytes[i + 1] === -delta;
}

interface GrowingCurve {
  seconds: Seconds[];
  byCause: Record<MemoryCause, Bytes[]>;
  total: Bytes[];
}

function emptyCurve(): GrowingCurve {
  const byCause = {} as Record<MemoryCause, Bytes[]>; // filled for every cause on the next line
  for (const cause of MEMORY_CAUSES) byCause[cause] = [];
  return { seconds: [], byCause, total: [] };
}

function addPoint(curve: GrowingCurve, at: Seconds, held: BytesByCause): void {
  curve.seconds.push(at);
  curve.total.push(totalBytes(held));
  for (const cause of MEMORY_CAUSES) curve.byCause[cause].push(held[cause]);
}

function coarse(record: StepRecord): MemoryOverTime {
  const { owners, atStart, atPeak, atRest, peakSeconds } = record.memory;
  const out = emptyCurve();
  addPoint(out, 0, byCause(owners, atStart));
  addPoint(out, peakSeconds, byCause(owners, atPeak));
  addPoint(out, record.end - record.start, byCause(owners, atRest));
  return out;
}

import { COMM_CAUSES, now, type Seconds } from '../../core';
import type { CallHeader, CallSite } from './call';
import { CallRecord } from './record';

/** The collective that a thread runs now. */
export interface CollectiveStatus
  extends Pick<CallHeader, 'group' | 'op' | 'number' | 'count' | 'peer' | 'cause' | 'module' | 'async'>,
    Pick<CallSite, 'cell' | 'line'> {
  readonly dtype: string;
  /** A description of the data that the collective carries; '' if the caller gave none. */
  readonly detail: string;
  readonly since: Seconds;
}

/** The current activity of a rank; other threads of the rank's process may read this status at any time. */
export interface RankStatus {
  readonly state: 'idle' | 'running' | 'collective';
  /** The number of the running cell. */
  readonly cell: number | undefined;
  /** The time at which the state began. */
  readonly since: Seconds;
  /** The collective in which the main thread waits. */
  readonly collective: CollectiveStatus | undefined;
  /** The collective that the comm thread runs. */
  readonly background: CollectiveStatus | undefined;
  /** The number of asynchronous collectives, besides `collective`, that the rank had started and not settled when it began to wait. */
  readonly numPosted: number;
}

/**
 * [Note: status board] Each writing thread has a section, which contains words, times, the group's name and the record of the
 * collective. One of the words is a sequence number, which is odd during a write.
 */
const SECTION_BYTES = 1024;
const SECTION = { main: 0, comm: 1 } as const;
const WORD = { sequence: 0, inCollective: 1, runningCell: 2, cause: 3, groupBytes: 4, numPosted: 5 } as const;
const TIMES_AT = 64;
const GROUP_AT = 96;
const GROUP_LIMIT = 96;
const RECORD_AT = 256;
const NOT_RUNNING = -1;
/** Lengths for the record of a thread's call; they are empty, because ranks do not compare this record. */
const NO_LENGTHS = { signature: 0, sends: [], receives: [] };

/** Makes the memory of one rank's status board; all threads of the rank share this memory. */
export function createStatusBoard(): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(2 * SECTION_BYTES);
  for (const section of [SECTION.main, SECTION.comm]) {
    new Int32Array(buffer, section * SECTION_BYTES, 16)[WORD.runningCell] = NOT_RUNNING;
  }
  return buffer;
}

/** Writes one thread's section. */
export class StatusWriter {
  readonly #words: Int32Array;
  readonly #times: Float64Array;
  readonly #group: Buffer;
  readonly #record: CallRecord;
  #lastGroup = '';

  constructor(board: SharedArrayBuffer, thread: keyof typeof SECTION) {
    const at = SECTION[thread] * SECTION_BYTES;
    this.#words = new Int32Array(board, at, 16);
    this.#times = new Float64Array(board, at + TIMES_AT, 2);
    this.#group = Buffer.from(board, at + GROUP_AT, GROUP_LIMIT);
    this.#record = new CallRecord(board, at + RECORD_AT, 0);
  }

  /** Writes that the rank runs no cell. */
  idle(): void {
    this.#setRunning(NOT_RUNNING);
  }

  /** Writes that the rank runs a cell. */
  running(cell: number): void {
    this.#setRunning(cell);
  }

  enter(header: CallHeader, numPosted = 0): void {
    this.#begin();
    this.#words[WORD.inCollective] = 1;
    this.#words[WORD.numPosted] = numPosted;
    this.#words[WORD.cause] = COMM_CAUSES.indexOf(header.cause);
    this.#times[1] = now();
    if (header.group !== this.#lastGroup) this.#words[WORD.groupBytes] = this.#group.write(header.group);
    this.#lastGroup = header.group;
    this.#record.write(header, NO_LENGTHS);
    this.#end();
  }

  leave(): void {
    this.#begin();
    this.#words[WORD.inCollective] = 0;
    this.#end();
  }

  #setRunning(cell: number): void {
    this.#begin();
    this.#words[WORD.runningCell] = cell;
    this.#words[WORD.inCollective] = 0;
    this.#times[0] = now();
    this.#end();
  }

  /** Makes the sequence number odd. The number may be odd already, if a writer was terminated during a write. */
  #begin(): void {
    const sequence = Atomics.load(this.#words, WORD.sequence);
    Atomics.store(this.#words, WORD.sequence, (sequence + 1) | 1);
  }
  #end(): void {
    Atomics.add(this.#words, WORD.sequence, 1);
  }
}

/** Reads a rank's status. Any thread of the rank's process may call this function while the main thread is busy. */
export function readStatus(board: SharedArrayBuffer): RankStatus {
  const main = readSection(board, SECTION.main);
  const comm = readSection(board, SECTION.comm);
  const { collective, numPosted } = main;
  const base = { cell: main.runningCell, collective, background: comm.collective, numPosted };
  if (collective !== undefined) return { ...base, state: 'collective', since: collective.since };
  return { ...base, state: main.runningCell === undefined ? 'idle' : 'running', since: main.since };
}

interface SectionStatus {
  readonly runningCell: number | undefined;
  readonly since: Seconds;
  readonly collective: CollectiveStatus | undefined;
  readonly numPosted: number;
}

/**
 * Copies a section until no write happened during the copy. After 1,000 attempts (the writer has stopped), uses the last copy.
 */
function readSection(board: SharedArrayBuffer, section: number): SectionStatus {
  const source = new Uint8Array(board, section * SECTION_BYTES, SECTION_BYTES);
  const sequence = new Int32Array(board, section * SECTION_BYTES, 1);
  const copy = Buffer.alloc(SECTION_BYTES);
  for (let attempt = 0; attempt < 1000; attempt++) {
    const before = Atomics.load(sequence, 0);
    copy.set(source);
    if (before % 2 === 0 && Atomics.load(sequence, 0) === before) break;
  }
  return decode(copy);
}

function decode(copy: Buffer): SectionStatus {
  const word = (index: number): number => copy.readInt32LE(index * 4);
  const runningCell = word(WORD.runningCell) === NOT_RUNNING ? undefined : word(WORD.runningCell);
  const since = copy.readDoubleLE(TIMES_AT);
  if (word(WORD.inCollective) === 0) return { runningCell, since, collective: undefined, numPosted: 0 };
  const record = new CallRecord(copy.buffer, RECORD_AT, 0);
  const { op, number, count, dtype, peer, module, cell, line, async, detail } = record.side(0);
  const collective = {
    op: op === 'unknown' ? 'barrier' : op,
    number,
    count,
    dtype,
    peer,
    module,
    cell,
    line,
    async,
    detail,
    group: copy.toString('utf8', GROUP_AT, GROUP_AT + word(WORD.groupBytes)),
    cause: COMM_CAUSES[word(WORD.cause)] ?? 'user',
    since: copy.readDoubleLE(TIMES_AT + 8),
  };
  return { runningCell, since, collective, numPosted: word(WORD.numPosted) };
}

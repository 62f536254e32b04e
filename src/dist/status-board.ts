import { COMM_CAUSES, type CommCause } from '../core/events';
import { now, type Seconds } from '../core/units';
import { CALL_OPS, type CallHeader, type CallOp, WIRE_DTYPES } from '../transport/call';

/** A collective in which a thread is now. */
export interface CollectiveStatus {
  readonly group: string;
  readonly number: number;
  readonly op: CallOp;
  readonly count: number;
  readonly dtype: string;
  /** Source of a broadcast, or other end of a send or recv, as rank in the group; -1 for none. */
  readonly peer: number;
  readonly cause: CommCause;
  readonly module: string;
  readonly cell: number | undefined;
  readonly line: number | undefined;
  readonly async: boolean;
  readonly since: Seconds;
}

/** What a rank does; other threads of its process may read it at any time. */
export interface RankStatus {
  readonly state: 'idle' | 'running' | 'collective';
  /** The running cell. */
  readonly cell: number | undefined;
  /** When the state began. */
  readonly since: Seconds;
  /** The collective in which the main thread waits. */
  readonly collective: CollectiveStatus | undefined;
  /** The collective in which the comm thread is. */
  readonly background: CollectiveStatus | undefined;
}

/**
 * [Note: status board] One section per writing thread: words, times, then texts, with a sequence number that is odd
 * during a write.
 */
const SECTION_BYTES = 512;
const SECTION = { main: 0, comm: 1 } as const;
const WORD = {
  sequence: 0,
  inCollective: 1,
  runningCell: 2,
  number: 3,
  op: 4,
  count: 5,
  dtype: 6,
  peer: 7,
  cause: 8,
  cell: 9,
  line: 10,
  async: 11,
  groupBytes: 12,
  moduleBytes: 13,
} as const;
const TIMES_AT = 64;
const GROUP_AT = 96;
const GROUP_LIMIT = 96;
const MODULE_AT = 192;
const MODULE_LIMIT = 256;
const NOT_RUNNING = -1;

/** Memory for one rank's status, shared by all threads of the rank. */
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
  readonly #module: Buffer;
  #lastGroup = '';
  #lastModule = '';

  constructor(board: SharedArrayBuffer, thread: keyof typeof SECTION) {
    const at = SECTION[thread] * SECTION_BYTES;
    this.#words = new Int32Array(board, at, 16);
    this.#times = new Float64Array(board, at + TIMES_AT, 2);
    this.#group = Buffer.from(board, at + GROUP_AT, GROUP_LIMIT);
    this.#module = Buffer.from(board, at + MODULE_AT, MODULE_LIMIT);
  }

  /** The rank waits for work. */
  idle(): void {
    this.#setRunning(NOT_RUNNING);
  }

  /** The rank runs a cell. */
  running(cell: number): void {
    this.#setRunning(cell);
  }

  enter(header: CallHeader): void {
    const words = this.#words;
    this.#begin();
    words[WORD.inCollective] = 1;
    words[WORD.number] = header.number;
    words[WORD.op] = CALL_OPS.indexOf(header.op);
    words[WORD.count] = header.count;
    words[WORD.dtype] = WIRE_DTYPES.indexOf(header.dtype);
    words[WORD.peer] = header.peer;
    words[WORD.cause] = COMM_CAUSES.indexOf(header.cause);
    words[WORD.cell] = header.site.cell ?? -1;
    words[WORD.line] = header.site.line ?? -1;
    words[WORD.async] = header.async ? 1 : 0;
    this.#times[1] = now();
    this.#writeTexts(header);
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

  #writeTexts({ group, module }: CallHeader): void {
    if (group !== this.#lastGroup) this.#words[WORD.groupBytes] = this.#group.write(group);
    if (module !== this.#lastModule) this.#words[WORD.moduleBytes] = this.#module.write(module);
    this.#lastGroup = group;
    this.#lastModule = module;
  }

  /** The number is also odd if a writer was ended between begin and end. */
  #begin(): void {
    const sequence = Atomics.load(this.#words, WORD.sequence);
    Atomics.store(this.#words, WORD.sequence, (sequence + 1) | 1);
  }
  #end(): void {
    Atomics.add(this.#words, WORD.sequence, 1);
  }
}

/** Reads a rank's status from any thread of its process, whatever its main thread does. */
export function readStatus(board: SharedArrayBuffer): RankStatus {
  const main = readSection(board, SECTION.main);
  const comm = readSection(board, SECTION.comm);
  const { collective } = main;
  const base = { cell: main.runningCell, collective, background: comm.collective };
  if (collective !== undefined) return { ...base, state: 'collective', since: collective.since };
  return { ...base, state: main.runningCell === undefined ? 'idle' : 'running', since: main.since };
}

interface SectionStatus {
  readonly runningCell: number | undefined;
  readonly since: Seconds;
  readonly collective: CollectiveStatus | undefined;
}

/** Copies until no write happened during the copy; if a writer stops in the middle, its unfinished section is used. */
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
  const present = (index: number): number | undefined => (word(index) < 0 ? undefined : word(index));
  const text = (at: number, bytes: number): string => copy.toString('utf8', at, at + bytes);
  const collective =
    word(WORD.inCollective) === 0
      ? undefined
      : {
          group: text(GROUP_AT, word(WORD.groupBytes)),
          number: word(WORD.number),
          op: CALL_OPS[word(WORD.op)] ?? 'barrier',
          count: word(WORD.count),
          dtype: WIRE_DTYPES[word(WORD.dtype)] ?? 'float32',
          peer: word(WORD.peer),
          cause: COMM_CAUSES[word(WORD.cause)] ?? 'user',
          module: text(MODULE_AT, word(WORD.moduleBytes)),
          cell: present(WORD.cell),
          line: present(WORD.line),
          async: word(WORD.async) === 1,
          since: copy.readDoubleLE(TIMES_AT + 8),
        };
  return { runningCell: present(WORD.runningCell), since: copy.readDoubleLE(TIMES_AT), collective };
}

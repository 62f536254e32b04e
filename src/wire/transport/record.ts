import type { Seconds } from '../../core';
import { CALL_OPS, type CallHeader, type CallOp, type CallSite, REDUCTIONS, WIRE_DTYPES } from './call';

/**
 * A collective's fingerprint, in shared memory or in a zeromq message. Words: 0 epoch, 1 number, 2 op, 3 dtype, 4 wire dtype, 5
 * reduction, 6 peer, 7 signature of all lengths, 8 asynchronous, 9 count, 10 value, 11 cell, 12 line, 13 bytes of text, 14 and
 * 15 `freeAt` as float64, 16 contents. The text begins at byte 68. Only allToAll writes lengths, from byte 512: first the number
 * of elements that this rank sends to each rank, then the number that it expects from each rank.
 */
const WORD = {
  epoch: 0,
  number: 1,
  op: 2,
  dtype: 3,
  wire: 4,
  reduction: 5,
  peer: 6,
  signature: 7,
  async: 8,
  count: 9,
  value: 10,
  cell: 11,
  line: 12,
  text: 13,
  contents: 16,
} as const;

/** The words from `number` to `async`, and the word `contents`, must be equal on all ranks. */
const COMPARED_FROM = WORD.number;
const COMPARED_TO = WORD.async;
const FREE_AT = 56;
const NUM_WORDS = 17;
const TEXT_AT = 4 * NUM_WORDS;
const LENGTHS_AT = 512;
const TEXT_LIMIT = LENGTHS_AT - TEXT_AT;

/** Bytes of a record in a group of `size` ranks. */
export function recordBytes(size: number): number {
  return LENGTHS_AT + 8 * size;
}

/** The lengths of a call's tensors, which ranks compare in addition to the header. */
export interface CallLengths {
  /** Stands for the lengths that must be equal on all ranks: a length, or a hash of several lengths. 0 for allToAll. */
  readonly signature: number;
  readonly sends: readonly number[];
  readonly receives: readonly number[];
}

/** The call that one rank made when the ranks' calls differed; the error's message and details show it. */
export interface CallSide
  extends Pick<CallHeader, 'number' | 'count' | 'reduction' | 'peer' | 'async' | 'module'>,
    Pick<CallSite, 'cell' | 'line'> {
  readonly rank: number;
  readonly op: CallOp | 'unknown';
  readonly dtype: string;
  readonly wireDType: string;
  readonly site: string;
  readonly detail: string;
  /** What the call carries; '' if the caller did not say it. */
  readonly contents: string;
}

/** A record at an address of shared memory. */
export class CallRecord {
  readonly #words: Int32Array;
  readonly #free: Float64Array;
  readonly #text: Buffer;
  readonly #lengths: Int32Array;
  readonly #size: number;

  constructor(buffer: SharedArrayBuffer | ArrayBuffer, at: number, size: number) {
    this.#words = new Int32Array(buffer, at, NUM_WORDS);
    this.#free = new Float64Array(buffer, at + FREE_AT, 1);
    // Buffer.from accepts an ArrayBuffer and a SharedArrayBuffer, but its type does not accept the union of both.
    this.#text = Buffer.from(buffer as ArrayBuffer, at + TEXT_AT, TEXT_LIMIT);
    this.#lengths = new Int32Array(buffer, at + LENGTHS_AT, 2 * size);
    this.#size = size;
  }

  write(header: CallHeader, lengths: CallLengths): void {
    const words = this.#words;
    words[WORD.epoch] = header.epoch;
    words[WORD.number] = header.number;
    words[WORD.op] = CALL_OPS.indexOf(header.op);
    words[WORD.dtype] = WIRE_DTYPES.indexOf(header.dtype);
    words[WORD.wire] = WIRE_DTYPES.indexOf(header.wireDType);
    words[WORD.reduction] = header.reduction === undefined ? -1 : REDUCTIONS.indexOf(header.reduction);
    words[WORD.peer] = header.peer;
    words[WORD.signature] = lengths.signature;
    words[WORD.async] = header.async ? 1 : 0;
    words[WORD.count] = header.count;
    words[WORD.value] = header.value;
    words[WORD.cell] = header.site.cell ?? -1;
    words[WORD.line] = header.site.line ?? -1;
    const { module, site, detail = '', contents } = header;
    words[WORD.contents] = contents?.word ?? 0;
    const carried = contents?.text ?? '';
    const isEmpty = module === '' && site.text === '' && detail === '' && carried === '';
    words[WORD.text] = isEmpty ? 0 : this.#text.write(`${module}\n${site.text}\n${detail}\n${carried}`);
    if (header.op !== 'allToAll') return;
    this.#lengths.set(lengths.sends);
    this.#lengths.set(lengths.receives, this.#size);
  }

  /** The time at which the rank had arrived and its link was free, by the machine's clock; 0 if links are not shaped. */
  get freeAt(): Seconds {
    return this.#free[0] ?? 0;
  }
  set freeAt(at: Seconds) {
    this.#free[0] = at;
  }

  get epoch(): number {
    return this.#words[WORD.epoch] ?? 0;
  }
  get number(): number {
    return this.#words[WORD.number] ?? 0;
  }
  get value(): number {
    return this.#words[WORD.value] ?? 0;
  }
  set value(value: number) {
    this.#words[WORD.value] = value;
  }

  /** Whether both records describe the same collective with the same lengths and contents. */
  agreesWith(record: CallRecord): boolean {
    if (this.#words[WORD.contents] !== record.#words[WORD.contents]) return false;
    for (let i = COMPARED_FROM; i <= COMPARED_TO; i++) {
      if (this.#words[i] !== record.#words[i]) return false;
    }
    return true;
  }

  /** Whether a send and a recv have the same call number, dtype, wire dtype, number of elements, value and contents. */
  fitsPeer(record: CallRecord): boolean {
    return [WORD.number, WORD.dtype, WORD.wire, WORD.signature, WORD.value, WORD.contents].every(
      (word) => this.#words[word] === record.#words[word],
    );
  }

  sendsTo(rank: number): number {
    return this.#lengths[rank] ?? 0;
  }
  receivesFrom(rank: number): number {
    return this.#lengths[this.#size + rank] ?? 0;
  }

  side(rank: number): CallSide {
    const word = (index: number): number => this.#words[index] ?? 0;
    const present = (value: number): number | undefined => (value < 0 ? undefined : value);
    const text = this.#text.toString('utf8', 0, word(WORD.text));
    const [module = '', site = '', detail = '', contents = ''] = text.split('\n');
    return {
      rank,
      op: CALL_OPS[word(WORD.op)] ?? 'unknown',
      number: word(WORD.number),
      count: word(WORD.count),
      dtype: WIRE_DTYPES[word(WORD.dtype)] ?? 'unknown',
      wireDType: WIRE_DTYPES[word(WORD.wire)] ?? 'unknown',
      reduction: REDUCTIONS[word(WORD.reduction)],
      peer: word(WORD.peer),
      async: word(WORD.async) === 1,
      module,
      detail,
      contents,
      cell: present(word(WORD.cell)),
      line: present(word(WORD.line)),
      site,
    };
  }
}

/** One of a call's block lists (an input or an output); `total` is the number of elements in the list. */
interface Total {
  readonly total: number;
}

/** Returns the lengths that ranks compare in addition to the header. */
export function lengthsOf(call: {
  readonly header: CallHeader;
  readonly inputs: readonly Total[];
  readonly outputs: readonly Total[];
}): CallLengths {
  const totals = (lists: readonly Total[]): number[] => lists.map((list) => list.total);
  const signed = (signature: number): CallLengths => ({ signature, sends: [], receives: [] });
  switch (call.header.op) {
    case 'reduceScatter':
      return signed(signatureOf(totals(call.inputs)));
    case 'allGather':
      return signed(signatureOf(totals(call.outputs)));
    case 'allToAll':
      return { signature: 0, sends: totals(call.inputs), receives: totals(call.outputs) };
    case 'exchange':
    case 'subgroup':
    case 'barrier':
      return signed(call.header.signature);
    case 'recv':
    case 'scatter':
      return signed(call.outputs[0]?.total ?? 0);
    default:
      return signed(call.inputs[0]?.total ?? 0);
  }
}

/** Whether, for each pair of ranks, the receiver expects as many elements as the sender sends. */
export function lengthsMatch(records: readonly CallRecord[]): boolean {
  return records.every((from, sender) =>
    records.every((to, receiver) => from.sendsTo(receiver) === to.receivesFrom(sender)),
  );
}

/** Returns a hash of a text (FNV-1a over its characters); never 0. */
export function wordOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash | 0 || 1;
}

/** Returns a hash of a list of lengths (FNV-1a over its words). */
export function signatureOf(lengths: readonly number[]): number {
  let hash = 0x811c9dc5;
  for (const length of lengths) hash = Math.imul(hash ^ length, 0x01000193);
  return hash | 0;
}

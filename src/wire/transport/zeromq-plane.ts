import { join } from 'node:path';
import type { Bytes } from '../../core';
import { allAgree, type BlockList, blocksLength, type Call, type CallResult, VALUE_BYTES } from './call';
import { CommClient } from './comm-client';
import { ControlBlock } from './control-block';
import { type JobLinks, shareLinks } from './links';
import type { GroupIdentity } from './mismatch';
import type { Plane, PlaneGroup, PostedCall } from './plane';
import { lengthsOf } from './record';
import { checkControl } from './wait';
import type { StagedCall } from './zeromq-collectives';
import type { ZeromqRequest, ZeromqSetup } from './zeromq-loop';

export interface ZeromqOptions extends JobLinks {
  readonly addresses: readonly string[];
  /** The job's secret, by which ranks recognize letters of the same job. */
  readonly token: string;
  readonly control: SharedArrayBuffer;
  readonly identity: GroupIdentity;
  /** The memory of the rank's status board, which createStatusBoard made. */
  readonly statusBoard: SharedArrayBuffer;
}

/** More groups than a rank makes in an epoch. */
const GROUPS_PER_EPOCH = 2 ** 16;

/** Largest number of bytes that the pool stores for later calls. */
const MOST_KEPT: Bytes = 64 * 2 ** 20;

/**
 * Opens a plane over zeromq, for ranks that cannot share memory. All collectives run on the comm thread; the main thread
 * copies its data into memory that both threads share, and waits for blocking calls.
 */
export function openZeromqPlane(options: ZeromqOptions): Plane {
  const { addresses, token, control, statusBoard } = options;
  const links = shareLinks(options);
  const setup: ZeromqSetup = { rank: options.identity.rank, addresses, token, control, links, statusBoard };
  const client = new CommClient(join(__dirname, 'zeromq-thread.js'), setup);
  const block = new ControlBlock(control);
  const pool = new StagingPool();
  let numGroups = 0;
  const open = (identity: GroupIdentity, path: string): PlaneGroup => {
    numGroups++;
    const id = numGroups;
    let numSubgroups = 0;
    client.send({ kind: 'group', id, path, identity } satisfies ZeromqRequest);
    const post = (call: Call): PostedCall => {
      checkControl(block, identity, call.header);
      const staged = stage(call, identity.ranks.length, pool);
      const compose = (ticket: number): ZeromqRequest => ({ kind: 'call', group: id, ticket, call: staged });
      return new StagedPost(client.post(compose), call, staged, pool);
    };
    return {
      run: (call) => post(call).wait(),
      post,
      // A rank that is started again begins to count at 0, in a later epoch: its groups must not get the paths of older ones.
      offerSubgroup: () => block.epoch * GROUPS_PER_EPOCH + numSubgroups++,
      openSubgroup: (subgroup, offer) => open(subgroup, `${path}/${offer}`),
      // Groups over sockets have no memory in a segment.
      release: () => undefined,
    };
  };
  return {
    kind: 'zeromq',
    get epoch() {
      return block.epoch;
    },
    world: open(options.identity, ''),
    sweep: () => undefined,
    forget: () => undefined,
    close: () => client.close(),
  };
}

/** A posted call. The first `wait` copies the outputs back. */
class StagedPost implements PostedCall {
  readonly #posted: PostedCall;
  readonly #call: Call;
  readonly #pool: StagingPool;
  #staged: StagedCall | undefined;
  #result: CallResult | undefined;

  constructor(posted: PostedCall, call: Call, staged: StagedCall, pool: StagingPool) {
    this.#posted = posted;
    this.#call = call;
    this.#staged = staged;
    this.#pool = pool;
  }

  get done(): boolean {
    return this.#posted.done;
  }

  wait(): CallResult {
    if (this.#result !== undefined) return this.#result;
    const times = this.#posted.wait();
    const values = this.#unstage();
    this.#result = { ...times, values, agrees: allAgree(values) };
    return this.#result;
  }

  /**
   * Copies the outputs back. This method must not run after a failed call, because the comm thread may still use a failed call's
   * memory.
   */
  #unstage(): readonly number[] {
    const [staged, pool] = [this.#staged, this.#pool];
    if (staged === undefined) return [];
    this.#staged = undefined;
    this.#call.outputs.forEach((list, index) => {
      const source = staged.outputs[index];
      if (source !== undefined) unstageList(source, list);
    });
    for (const buffer of new Set([...staged.inputs, ...staged.outputs])) pool.give(buffer);
    return [...new Int32Array(staged.values)];
  }
}

function stage(call: Call, size: number, pool: StagingPool): StagedCall {
  const { header } = call;
  const inputs = call.inputs.map((list) => stageList(list, pool));
  const outputs =
    call.outputs === call.inputs
      ? inputs
      : call.outputs.map((list) => pool.take(blocksLength(list) * VALUE_BYTES));
  const totals = (lists: readonly BlockList[]) => lists.map((list) => ({ total: blocksLength(list) }));
  const lengths = lengthsOf({ header, inputs: totals(call.inputs), outputs: totals(call.outputs) });
  return { header, lengths, inputs, outputs, values: new SharedArrayBuffer(size * 4) };
}

function stageList(list: BlockList, pool: StagingPool): SharedArrayBuffer {
  const staged = pool.take(blocksLength(list) * VALUE_BYTES);
  const bytes = new Uint8Array(staged);
  let at = 0;
  for (const { storage, offset, length } of list) {
    const start = offset * VALUE_BYTES;
    const end = start + length * VALUE_BYTES;
    if (storage !== undefined) bytes.set(storage.view().subarray(start, end), at);
    else bytes.fill(0, at, at + length * VALUE_BYTES);
    at += length * VALUE_BYTES;
  }
  return staged;
}

function unstageList(source: SharedArrayBuffer, list: BlockList): void {
  const bytes = new Uint8Array(source);
  let at = 0;
  for (const { storage, offset, length } of list) {
    const end = at + length * VALUE_BYTES;
    if (storage !== undefined) storage.view().set(bytes.subarray(at, end), offset * VALUE_BYTES);
    at = end;
  }
}

/**
 * Memory in which the main thread passes data to its comm thread. The pool reuses memory, because training repeats calls with
 * the same sizes. The page faults of new memory (one per 4 kB) take a third of the time of a large collective over zeromq.
 */
export class StagingPool {
  readonly #free = new Map<Bytes, SharedArrayBuffer[]>();
  #kept: Bytes = 0;

  /** Returns memory of exactly `bytes` bytes, which may hold old data. */
  take(bytes: Bytes): SharedArrayBuffer {
    const buffer = this.#free.get(bytes)?.pop();
    if (buffer === undefined) return new SharedArrayBuffer(bytes);
    this.#kept -= bytes;
    return buffer;
  }

  /** Takes back memory that is no longer in use. */
  give(buffer: SharedArrayBuffer): void {
    const { byteLength } = buffer;
    if (this.#kept + byteLength > MOST_KEPT) return;
    this.#kept += byteLength;
    const same = this.#free.get(byteLength);
    if (same === undefined) this.#free.set(byteLength, [buffer]);
    else same.push(buffer);
  }
}

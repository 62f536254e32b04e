import { allAgree, type BlockList, type Call, type CallResult, totalLength, VALUE_BYTES } from './call';
import { lengthsOf } from './collectives';
import { CommClient } from './comm-client';
import { ControlBlock } from './control-block';
import type { Link } from './link';
import { shareLink } from './link-clock';
import type { GroupIdentity } from './mismatch';
import type { Plane, PlaneGroup, PostedCall } from './plane';
import { toSpans } from './spans';
import { StagingPool } from './staging-pool';
import { guardOf } from './wait';
import type { StagedCall, ZeromqRequest, ZeromqSetup } from './zeromq-messages';

export interface ZeromqOptions {
  readonly addresses: readonly string[];
  /** The secret of the job, by which its ranks know each other's letters. */
  readonly token: string;
  readonly control: SharedArrayBuffer;
  readonly identity: GroupIdentity;
  /** Shapes the wire; undefined: as fast as sockets are. */
  readonly link?: Link | undefined;
  /** Script of the comm thread; it runs a ZeromqLoop. */
  readonly commScript: string;
  readonly commExtra: unknown;
}

/**
 * Ranks over zeromq, where memory cannot be shared. Everything runs on the comm thread; the main thread copies its
 * data into memory of both, and waits for blocking calls.
 */
export function openZeromqPlane(options: ZeromqOptions): Plane {
  const { identity, addresses, token, control, commScript, commExtra } = options;
  const link = options.link === undefined ? undefined : shareLink(options.link);
  const setup: ZeromqSetup = { rank: identity.rank, addresses, token, control, link, extra: commExtra };
  const client = new CommClient(commScript, setup);
  const block = new ControlBlock(control);
  const groups = new ZeromqGroups(client, block);
  return {
    kind: 'zeromq',
    get epoch() {
      return block.epoch;
    },
    world: groups.open(identity, ''),
    close: () => client.close(),
  };
}

class ZeromqGroups {
  readonly client: CommClient;
  readonly control: ControlBlock;
  readonly pool = new StagingPool();
  #numGroups = 0;

  constructor(client: CommClient, control: ControlBlock) {
    this.client = client;
    this.control = control;
  }

  open(identity: GroupIdentity, path: string): ZeromqGroup {
    this.#numGroups++;
    const id = this.#numGroups;
    this.client.send({ kind: 'group', id, path, identity } satisfies ZeromqRequest);
    return new ZeromqGroup(this, identity, id, path);
  }
}

class ZeromqGroup implements PlaneGroup {
  readonly #groups: ZeromqGroups;
  readonly #identity: GroupIdentity;
  readonly #id: number;
  readonly #path: string;
  #numSubgroups = 0;

  constructor(groups: ZeromqGroups, identity: GroupIdentity, id: number, path: string) {
    this.#groups = groups;
    this.#identity = identity;
    this.#id = id;
    this.#path = path;
  }

  run(call: Call): CallResult {
    return this.post(call).wait();
  }

  post(call: Call): PostedCall {
    const { control, client, pool } = this.#groups;
    const { header } = call;
    const what = (): string => `${header.op} number ${header.number} of group ${header.group}`;
    guardOf(control, this.#identity, header.epoch, what).check();
    const staged = stage(call, this.#identity.ranks.length, pool);
    const posted = client.post(
      (ticket): ZeromqRequest => ({ kind: 'call', group: this.#id, ticket, call: staged }),
    );
    return new StagedPost(posted, call, staged, pool);
  }

  offerSubgroup(): number {
    return this.#numSubgroups++;
  }

  openSubgroup(identity: GroupIdentity, offer: number): PlaneGroup {
    return this.#groups.open(identity, `${this.#path}/${offer}`);
  }
}

/** Copies the outputs back when somebody waits. */
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

  /** Only after a call that ended well: the comm thread may still use the memory of one that failed. */
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
      : call.outputs.map((list) => pool.take(totalLength(list) * VALUE_BYTES));
  const same = call.outputs === call.inputs;
  const spans = call.inputs.map(toSpans);
  const lengths = lengthsOf({ header, inputs: spans, outputs: same ? spans : call.outputs.map(toSpans) });
  return { header, lengths, inputs, outputs, values: new SharedArrayBuffer(size * 4) };
}

function stageList(list: BlockList, pool: StagingPool): SharedArrayBuffer {
  const staged = pool.take(totalLength(list) * VALUE_BYTES);
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

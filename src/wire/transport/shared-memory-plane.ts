import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { type Bytes, collectGarbage, now, openThreadCpuClock, ShardlabError } from '../../core';
import { allAgree, type Call, type CallResult } from './call';
import { carried, progressOf } from './carried';
import { CollectiveLane } from './collectives';
import { CommClient } from './comm-client';
import type { CommRequest } from './comm-loop';
import { CONTROL_BYTES } from './control-block';
import { attach, type GroupAttachment, type GroupMemory, type ThreadTools } from './group-memory';
import { compileKernels } from './kernels/load';
import { RegionLayout, STREAM } from './layout';
import type { Link } from './link';
import { LinkClock, type SharedLink, shareLink } from './link-clock';
import { type GroupIdentity, speaker } from './mismatch';
import { PairLane } from './pair-lane';
import type { Plane, PlaneGroup, PostedCall } from './plane';
import { RegionTable } from './region-table';
import { type OpenSegment, openSegment, PAGE_BYTES } from './segment';
import { type SpanCall, toSpans } from './spans';
import { checkControl, runBlocking } from './wait';

export interface SharedMemoryOptions {
  /** The file descriptor of the launcher's segment, which this rank inherited. */
  readonly fd: number;
  readonly bytes: Bytes;
  readonly identity: GroupIdentity;
  /** The shaped link; undefined if the wire is as fast as memory. */
  readonly link?: Link | undefined;
  /** The memory of the rank's status board, which createStatusBoard made. */
  readonly statusBoard: SharedArrayBuffer;
}

/** Setup data of the comm thread. */
export interface SharedMemorySetup {
  readonly controlBuffer: SharedArrayBuffer;
  readonly kernelModule: WebAssembly.Module;
  readonly link: SharedLink | undefined;
  readonly statusBoard: SharedArrayBuffer;
}

/**
 * The main thread checks a wait this number of times before it sleeps. The checks take a few microseconds, in which a rank on
 * another core may arrive. If ranks share cores, more checks would take the core from a rank that needs it.
 */
const SPINS_ALONE = 1000;
const SPINS_CROWDED = 100;

/** The part of the segment that groups which no code can reach may take before a rank looks for them. */
const UNSWEPT_PART = 1 / 16;

/** This rank's part of a group's region, which the plane keeps until the rank releases it. */
interface Held {
  readonly group: WeakRef<SharedMemoryGroup>;
  readonly id: number;
  readonly entry: number;
  readonly attachment: GroupAttachment;
  /** The newest posted call of each kind: collectives, sends to each rank, recvs from each rank. */
  readonly posted: Map<string, PostedCall>;
  /** Whether the program has destroyed the group. */
  isDestroyed: boolean;
}

/** Connects the ranks of one machine through one memory segment. */
export class SharedMemoryPlane implements Plane {
  readonly kind = 'shared-memory';
  readonly world: PlaneGroup;
  readonly segment: OpenSegment;
  readonly tools: ThreadTools;
  readonly spins: number;
  readonly #options: SharedMemoryOptions;
  readonly #regions: RegionTable;
  readonly #held = new Map<number, Held>();
  /** Bytes of the groups that were made since the last sweep. */
  #unswept: Bytes = 0;
  #client: CommClient | undefined;
  #numGroups = 0;

  /** Opens the segment and the group of all ranks. Throws: TRANSPORT. */
  constructor(options: SharedMemoryOptions) {
    this.#options = options;
    this.segment = openSegment(options.fd, options.bytes);
    const { native, control } = this.segment;
    const link = options.link === undefined ? undefined : new LinkClock(shareLink(options.link));
    this.tools = { native, control, kernelModule: compileKernels(), link, cpu: openThreadCpuClock() };
    const world = options.identity.ranks.length;
    this.spins = world <= availableParallelism() ? SPINS_ALONE : SPINS_CROWDED;
    const subgroupsFrom = (CONTROL_BYTES + new RegionLayout(world).sharedBytes) / PAGE_BYTES;
    const end = Math.floor(this.segment.bytes / PAGE_BYTES);
    this.#regions = new RegionTable(this.segment.controlBuffer, subgroupsFrom, end);
    this.world = this.#open(options.identity, CONTROL_BYTES / PAGE_BYTES, new Map());
  }

  get epoch(): number {
    return this.segment.control.epoch;
  }

  /** Opens the group whose region has this entry in the table of regions. */
  group(identity: GroupIdentity, entry: number): SharedMemoryGroup {
    const posted = new Map<string, PostedCall>();
    const group = this.#open(identity, this.#regions.pageOf(entry), posted);
    const { id, attachment } = group;
    this.#held.set(id, { group: new WeakRef(group), id, entry, attachment, posted, isDestroyed: false });
    this.#unswept += new RegionLayout(identity.ranks.length).sharedBytes;
    return group;
  }

  #open(identity: GroupIdentity, page: number, posted: Map<string, PostedCall>): SharedMemoryGroup {
    const layout = new RegionLayout(identity.ranks.length);
    const region = this.segment.region(page * PAGE_BYTES, layout.sharedBytes, layout.privateBytes);
    this.#numGroups++;
    return new SharedMemoryGroup(this, this.#numGroups, { identity, ...region }, posted);
  }

  /** Takes a region for a group of `size` ranks and returns its entry; -1 if the segment is full. */
  take(size: number): number {
    return this.#regions.take(new RegionLayout(size).sharedBytes / PAGE_BYTES, size);
  }

  /** Sweeps if this rank has made many groups since the last sweep. */
  sweepSometimes(): void {
    // If all groups have two ranks, this rank has made the part 2 / numRanks of all.
    const numRanks = this.#options.identity.ranks.length;
    if (this.#unswept >= (UNSWEPT_PART * this.segment.bytes * 2) / numRanks) this.sweep();
  }

  sweep(): void {
    if (this.#held.size === 0) return;
    this.#unswept = 0;
    collectGarbage();
    for (const held of [...this.#held.values()])
      if (held.isDestroyed || held.group.deref() === undefined) this.#leave(held);
  }

  /** Releases this rank's part of a group that the program has destroyed. */
  release(id: number): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    held.isDestroyed = true;
    this.#leave(held);
  }

  #leave({ id, entry, attachment, posted }: Held): void {
    // While the comm thread uses the region, the group waits for a later sweep.
    if ([...posted.values()].some((call) => !call.done)) {
      this.#unswept++;
      return;
    }
    this.#held.delete(id);
    if (posted.size > 0) this.comm.send({ kind: 'forget', id } satisfies CommRequest);
    const { privateBytes, sharedBytes } = new RegionLayout(attachment.identity.ranks.length);
    const clear = (): void => this.segment.native.discard(attachment.base + privateBytes, sharedBytes);
    this.#regions.leave(entry, clear);
  }

  /** The comm thread, which starts when it is first used. */
  get comm(): CommClient {
    this.#client ??= new CommClient(join(__dirname, 'shared-memory-thread.js'), {
      controlBuffer: this.segment.controlBuffer,
      kernelModule: this.tools.kernelModule,
      link: this.tools.link?.shared,
      statusBoard: this.#options.statusBoard,
    } satisfies SharedMemorySetup);
    return this.#client;
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }
}

class SharedMemoryGroup implements PlaneGroup {
  readonly id: number;
  readonly attachment: GroupAttachment;
  readonly #shared: SharedMemoryPlane;
  readonly #memory: GroupMemory;
  readonly #collectives: CollectiveLane;
  readonly #pairs: PairLane;
  /** The newest posted call of each kind; see Held. */
  readonly #posted: Map<string, PostedCall>;

  constructor(
    shared: SharedMemoryPlane,
    id: number,
    attachment: GroupAttachment,
    posted: Map<string, PostedCall>,
  ) {
    this.#shared = shared;
    this.id = id;
    this.attachment = attachment;
    this.#posted = posted;
    this.#memory = attach(attachment, shared.tools);
    this.#collectives = new CollectiveLane(this.#memory, STREAM.main, (rank) => this.#serves(rank));
    this.#pairs = new PairLane(this.#memory, STREAM.main);
  }

  run(call: Call): CallResult {
    const { header } = call;
    const check = (): void => checkControl(this.#memory.control, this.#memory.identity, header);
    check();
    const lane = header.op === 'send' || header.op === 'recv' ? this.#pairs : this.#collectives;
    const began = { at: now(), cpu: this.#memory.cpu?.() ?? 0 };
    const steps = carried(lane, spanCall(call), this.#memory);
    const result = runBlocking(steps, this.#shared.spins, check);
    const progress = this.#memory.cpu === undefined ? undefined : progressOf(began.at, began, result);
    const { values, started = began.at } = result;
    return { started, ended: now(), values, agrees: allAgree(values), progress };
  }

  post(call: Call): PostedCall {
    const { comm } = this.#shared;
    const { id, attachment } = this;
    // The comm thread gets to know the group with its first posted call.
    if (this.#posted.size === 0) comm.send({ kind: 'group', id, attachment } satisfies CommRequest);
    const spans = spanCall(call);
    const posted = comm.post(
      (ticket): CommRequest => ({ kind: 'call', group: id, ticket, call: spans, posted: now() }),
    );
    const { op, peer } = call.header;
    this.#posted.set(op === 'send' || op === 'recv' ? `${op} ${peer}` : 'collective', posted);
    return posted;
  }

  /** Whether a posted send or recv with `rank` has not ended yet. */
  #serves(rank: number): boolean {
    return (['send', 'recv'] as const).some((op) => this.#posted.get(`${op} ${rank}`)?.done === false);
  }

  offerSubgroup(size: number): number {
    return this.#shared.take(size);
  }

  release(): void {
    this.#shared.release(this.id);
  }

  openSubgroup(identity: GroupIdentity, offer: number): PlaneGroup {
    this.#shared.sweepSometimes();
    if (offer < 0) {
      throw new ShardlabError(
        'TRANSPORT',
        `${speaker(identity)} there is no room for group ${identity.name} of ${identity.ranks.length} ranks: the job's shared ` +
          `segment of ${this.#shared.segment.bytes} bytes is full of groups that are in use; dispose runs that have ended ` +
          '(run.dispose()), declare again the variables of groups that are no longer used, or call ' +
          'dist.destroyProcessGroup(group) on all ranks of a group',
        { rank: identity.ranks[identity.rank] },
      );
    }
    return this.#shared.group(identity, offer);
  }
}

function spanCall({ header, inputs, outputs }: Call): SpanCall {
  const spans = inputs.map(toSpans);
  const same = inputs === outputs;
  return { header, inputs: spans, outputs: same ? spans : outputs.map(toSpans) };
}

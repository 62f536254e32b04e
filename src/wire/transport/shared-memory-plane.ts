import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { type Bytes, now, openThreadCpuClock, ShardlabError } from '../../core';
import { allAgree, type Call, type CallResult } from './call';
import { carried, progressOf } from './carried';
import { collectGarbage } from './collect-garbage';
import { CollectiveLane } from './collectives';
import { CommClient } from './comm-client';
import type { CommRequest } from './comm-loop';
import { CONTROL_BYTES } from './control-block';
import { attach, type GroupAttachment, type GroupMemory, type ThreadTools } from './group-memory';
import { compileKernels } from './kernels/load';
import { RegionLayout, STREAM } from './layout';
import { type JobLinks, Links, type SharedLinks, shareLinks } from './links';
import { type GroupIdentity, speaker } from './mismatch';
import { PairLane } from './pair-lane';
import type { Plane, PlaneGroup, PostedCall } from './plane';
import { type OpenSegment, openSegment, PAGE_BYTES } from './segment';
import { type SpanCall, toSpans } from './spans';
import { checkControl, runBlocking } from './wait';

/**
 * [Note: released groups] Each group of ranks has a region of the job's segment. A rank releases its part of a group when the
 * program destroys the group, or when the garbage collector finds that no code of the rank can reach it (a disposed run, a
 * variable that a cell declared again). The region is free when all its members have released it: until then, a late member may
 * still read its last collective. The last member gives the pages back, so that a new group finds zeros. A rank looks for such
 * groups when it makes new ones, after it has made many, and when the segment is full.
 */

/** Offset of the table in the control block. */
const TABLE_AT = 4096;
const NUM_ENTRIES = 4096;
const ENTRY_WORDS = 3;
const [PAGE, PAGES, HELD] = [0, 1, 2];
/** Words before the entries: the pages that were ever used, and the number of entries. */
const [USED, COUNT] = [0, 1];
const HEAD_WORDS = 16;

const FREE = 0;
/** The last member has left; it still gives the pages back. A rank that joins regions holds them like this, too. */
const LEFT = 1;
/** The page of an entry whose pages belong to another entry; the entry may be used again. */
const NOWHERE = -1;

interface Region {
  readonly entry: number;
  readonly page: number;
  readonly pages: number;
}

/** The regions of a segment, in memory that all ranks share. Every method is safe while other ranks call any method. */
export class RegionTable {
  readonly #words: Int32Array;
  readonly #firstPage: number;
  readonly #numPages: number;

  /** The table is in the segment's control block; regions are in the pages from `firstPage` to the segment's end. */
  constructor(controlBuffer: SharedArrayBuffer, firstPage: number, endPage: number) {
    this.#words = new Int32Array(controlBuffer, TABLE_AT, HEAD_WORDS + NUM_ENTRIES * ENTRY_WORDS);
    this.#firstPage = firstPage;
    this.#numPages = endPage - firstPage;
  }

  /** Takes a region of `pages` zero pages for a group; returns the region's entry, or -1 if the segment is full. */
  take(pages: number, numMembers: number): number {
    const held = LEFT + numMembers;
    const again = this.#free().find((region) => region.pages === pages && this.#claim(region, held));
    if (again !== undefined) return again.entry;
    const page = this.#use(pages);
    if (page >= 0) return this.#add({ page, pages }, held);
    this.#freeRest();
    return this.#join(pages, held);
  }

  /** The first page of an entry's region. */
  pageOf(entry: number): number {
    return this.#firstPage + this.#word(entry, PAGE);
  }

  /** Releases one member's part. The last member calls `clear`, which must give the region's pages back. */
  leave(entry: number, clear: () => void): void {
    if (Atomics.sub(this.#words, at(entry, HELD), 1) > LEFT + 1) return;
    clear();
    this.#set(entry, HELD, FREE);
  }

  /** The free regions, in the order of their pages. */
  #free(): Region[] {
    const count = Math.min(Atomics.load(this.#words, COUNT), NUM_ENTRIES);
    const regions: Region[] = [];
    for (let entry = 0; entry < count; entry++) {
      const [page, pages] = [this.#word(entry, PAGE), this.#word(entry, PAGES)];
      if (pages > 0 && this.#word(entry, HELD) === FREE) regions.push({ entry, page, pages });
    }
    return regions.sort((a, b) => a.page - b.page);
  }

  /** Holds a region, if it is still the free region that `#free` has read. */
  #claim({ entry, page, pages }: Region, held: number): boolean {
    if (Atomics.compareExchange(this.#words, at(entry, HELD), FREE, LEFT) !== FREE) return false;
    const isSame = this.#word(entry, PAGE) === page && this.#word(entry, PAGES) === pages;
    this.#set(entry, HELD, isSame ? held : FREE);
    return isSame;
  }

  /** Joins free regions that are neighbours to one region of `pages` pages; returns its entry, or -1. */
  #join(pages: number, held: number): number {
    for (const row of rowsOf(this.#free())) {
      const claimed: Region[] = [];
      for (const region of row) {
        if (sumOf(claimed) >= pages || !this.#claim(region, LEFT)) break;
        claimed.push(region);
      }
      const [first, ...others] = claimed;
      const total = sumOf(claimed);
      if (first === undefined || total < pages) {
        for (const { entry } of claimed) this.#set(entry, HELD, FREE);
        continue;
      }
      for (const { entry } of others) this.#retire(entry);
      this.#set(first.entry, PAGES, pages);
      this.#set(first.entry, HELD, held);
      if (total > pages) this.#add({ page: first.page + pages, pages: total - pages }, FREE);
      return first.entry;
    }
    return -1;
  }

  #retire(entry: number): void {
    this.#set(entry, PAGES, 0);
    this.#set(entry, PAGE, NOWHERE);
    this.#set(entry, HELD, FREE);
  }

  /** Adds an entry for pages that no other entry has; -1 if no entry is left, and then the pages are lost. */
  #add({ page, pages }: Omit<Region, 'entry'>, held: number): number {
    const entry = this.#spareEntry();
    if (entry < 0) return -1;
    this.#set(entry, PAGE, page);
    this.#set(entry, PAGES, pages);
    this.#set(entry, HELD, held);
    return entry;
  }

  /** Returns an entry that this rank holds and that has no pages; -1 if all entries are in use. */
  #spareEntry(): number {
    const count = Math.min(Atomics.load(this.#words, COUNT), NUM_ENTRIES);
    for (let entry = 0; entry < count; entry++) {
      if (this.#word(entry, PAGE) !== NOWHERE) continue;
      const isRetired = this.#claim({ entry, page: NOWHERE, pages: 0 }, LEFT);
      if (isRetired) return entry;
    }
    const entry = Atomics.add(this.#words, COUNT, 1);
    if (entry >= NUM_ENTRIES) return -1;
    this.#set(entry, HELD, LEFT);
    return entry;
  }

  #word(entry: number, word: number | undefined): number {
    return Atomics.load(this.#words, at(entry, word));
  }

  #set(entry: number, word: number | undefined, value: number): void {
    Atomics.store(this.#words, at(entry, word), value);
  }

  /** Makes the pages that no region has used a free region, which can be joined with others. */
  #freeRest(): void {
    const pages = this.#numPages - Atomics.load(this.#words, USED);
    const page = pages > 0 ? this.#use(pages) : -1;
    if (page >= 0) this.#add({ page, pages }, FREE);
  }

  #use(pages: number): number {
    for (;;) {
      const used = Atomics.load(this.#words, USED);
      if (used + pages > this.#numPages) return -1;
      if (Atomics.compareExchange(this.#words, USED, used, used + pages) === used) return used;
    }
  }
}

/** Divides regions, which are in order, into rows of neighbours. */
function rowsOf(regions: readonly Region[]): Region[][] {
  const rows: Region[][] = [];
  for (const region of regions) {
    const row = rows.at(-1);
    const last = row?.at(-1);
    if (last !== undefined && last.page + last.pages === region.page) row?.push(region);
    else rows.push([region]);
  }
  return rows;
}

function sumOf(regions: readonly Region[]): number {
  return regions.reduce((sum, { pages }) => sum + pages, 0);
}

function at(entry: number, word: number | undefined): number {
  return HEAD_WORDS + entry * ENTRY_WORDS + (word ?? 0);
}

export interface SharedMemoryOptions extends JobLinks {
  /** The file descriptor of the launcher's segment, which this rank inherited. */
  readonly fd: number;
  readonly bytes: Bytes;
  readonly identity: GroupIdentity;
  /** The memory of the rank's status board, which createStatusBoard made. */
  readonly statusBoard: SharedArrayBuffer;
}

/** Setup data of the comm thread. */
export interface SharedMemorySetup {
  readonly controlBuffer: SharedArrayBuffer;
  readonly kernelModule: WebAssembly.Module;
  readonly links: SharedLinks | undefined;
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
    const shared = shareLinks(options);
    const links = shared === undefined ? undefined : new Links(shared);
    this.tools = { native, control, kernelModule: compileKernels(), links, cpu: openThreadCpuClock() };
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

  forget(ranks: readonly number[]): void {
    for (const held of [...this.#held.values()]) {
      const { entry, attachment } = held;
      const { identity } = attachment;
      const ended = identity.ranks.filter((rank) => ranks.includes(rank));
      if (ended.length === 0) continue;
      // The first member that still runs releases the parts of the processes that have ended.
      const first = identity.ranks.findIndex((rank) => !ranks.includes(rank));
      if (first === identity.rank)
        for (const _ of ended) this.#regions.leave(entry, this.#clearing(attachment));
      held.isDestroyed = true;
      this.#leave(held);
    }
  }

  #leave({ id, entry, attachment, posted }: Held): void {
    // While the comm thread uses the region, the group waits for a later sweep.
    if ([...posted.values()].some((call) => !call.done)) {
      this.#unswept++;
      return;
    }
    this.#held.delete(id);
    if (posted.size > 0) this.comm.send({ kind: 'forget', id } satisfies CommRequest);
    this.#regions.leave(entry, this.#clearing(attachment));
  }

  /** Returns the function that gives the pages of a group's region back. */
  #clearing({ identity, base }: GroupAttachment): () => void {
    const { privateBytes, sharedBytes } = new RegionLayout(identity.ranks.length);
    return () => this.segment.native.discard(base + privateBytes, sharedBytes);
  }

  /** The comm thread, which starts when it is first used. */
  get comm(): CommClient {
    this.#client ??= new CommClient(join(__dirname, 'shared-memory-thread.js'), {
      controlBuffer: this.segment.controlBuffer,
      kernelModule: this.tools.kernelModule,
      links: this.tools.links?.shared,
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

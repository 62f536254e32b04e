import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { ShardlabError } from '../core/errors';
import { openThreadCpuClock } from '../core/thread-cpu';
import { type Bytes, now } from '../core/units';
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

/** Connects the ranks of one machine through one memory segment. */
export class SharedMemoryPlane implements Plane {
  readonly kind = 'shared-memory';
  readonly world: PlaneGroup;
  readonly segment: OpenSegment;
  readonly tools: ThreadTools;
  readonly spins: number;
  readonly #options: SharedMemoryOptions;
  readonly #subgroupsFrom: number;
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
    this.#subgroupsFrom = (CONTROL_BYTES + new RegionLayout(world).sharedBytes) / PAGE_BYTES;
    this.world = this.group(options.identity, CONTROL_BYTES / PAGE_BYTES);
  }

  get epoch(): number {
    return this.segment.control.epoch;
  }

  group(identity: GroupIdentity, page: number): SharedMemoryGroup {
    const layout = new RegionLayout(identity.ranks.length);
    const region = this.segment.region(page * PAGE_BYTES, layout.sharedBytes, layout.privateBytes);
    this.#numGroups++;
    return new SharedMemoryGroup(this, this.#numGroups, { identity, ...region });
  }

  /** Reserves memory for a group of `size` ranks and returns its position; -1 if the segment is full. */
  take(size: number): number {
    const pages = new RegionLayout(size).sharedBytes / PAGE_BYTES;
    const page = this.#subgroupsFrom + this.segment.control.take(pages);
    return (page + pages) * PAGE_BYTES <= this.segment.bytes ? page : -1;
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
  readonly #shared: SharedMemoryPlane;
  readonly #id: number;
  readonly #attachment: GroupAttachment;
  readonly #memory: GroupMemory;
  readonly #collectives: CollectiveLane;
  readonly #pairs: PairLane;
  /** The newest posted send to each rank, and the newest posted recv from each rank. */
  readonly #exchanges = new Map<string, PostedCall>();
  #known = false;

  constructor(shared: SharedMemoryPlane, id: number, attachment: GroupAttachment) {
    this.#shared = shared;
    this.#id = id;
    this.#attachment = attachment;
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
    if (!this.#known) {
      comm.send({ kind: 'group', id: this.#id, attachment: this.#attachment } satisfies CommRequest);
      this.#known = true;
    }
    const spans = spanCall(call);
    const posted = comm.post(
      (ticket): CommRequest => ({ kind: 'call', group: this.#id, ticket, call: spans, posted: now() }),
    );
    const { op, peer } = call.header;
    if (op === 'send' || op === 'recv') this.#exchanges.set(`${op} ${peer}`, posted);
    return posted;
  }

  /** Whether a posted send or recv with `rank` has not ended yet. */
  #serves(rank: number): boolean {
    return (['send', 'recv'] as const).some((op) => this.#exchanges.get(`${op} ${rank}`)?.done === false);
  }

  offerSubgroup(size: number): number {
    return this.#shared.take(size);
  }

  openSubgroup(identity: GroupIdentity, offer: number): PlaneGroup {
    if (offer < 0) {
      throw new ShardlabError(
        'TRANSPORT',
        `${speaker(identity)} there is no room for group ${identity.name} of ${identity.ranks.length} ranks: the job's shared ` +
          `segment of ${this.#shared.segment.bytes} bytes is full; make fewer groups or launch with a larger segment`,
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

import {
  type BufferId,
  type Bytes,
  type CollectiveEvent,
  type DType,
  formatBytes,
  type LiveBuffer,
  type MemoryCause,
  now,
  type Observer,
  type PointListener,
  type Seconds,
  ShardlabError,
  type Space,
  type SpanEvent,
  type Tag,
  type ThreadCpuClock,
} from '../core';
import { PointListeners } from './point-listeners';
import {
  type BytesByCause,
  type MemoryCurve,
  noBytes,
  type Owner,
  type ProcessMemory,
  type StepRecord,
} from './record';
import { type EndedStep, type Moment, type Peak, StepEvents, type StepStart } from './step-events';

/** An owner with its number. */
interface Numbered {
  readonly owner: Owner;
  readonly index: number;
}

/** Numbers the owners of bytes in a process, in order of appearance. */
class OwnerTable {
  readonly owners: Owner[] = [];
  /** The run of each owner, in the order of `owners`. */
  readonly runs: number[] = [];
  #run = 0;
  /** The owners of each run by module. A module has few owners, so comparing their fields takes less time than making a key. */
  readonly #byRun = new Map<number, Map<string, Numbered[]>>();
  #byModule = new Map<string, Numbered[]>();
  #lastTag: Tag | undefined;
  #lastSpace: Space | undefined;
  #lastIndex = 0;

  constructor() {
    this.enter(0);
  }

  /** Returns the index of the tag's owner. If the previous call had the same tag object, nothing is searched. */
  indexOf(tag: Tag, space: Space): number {
    if (tag === this.#lastTag && space === this.#lastSpace) return this.#lastIndex;
    this.#lastIndex = this.#find(tag, space);
    this.#lastTag = tag;
    this.#lastSpace = space;
    return this.#lastIndex;
  }

  /** From now on, new owners belong to this run; 0 means no run. */
  enter(run: number): void {
    this.#run = run;
    this.#lastTag = undefined;
    this.#byModule = this.#byRun.get(run) ?? new Map();
    this.#byRun.set(run, this.#byModule);
  }

  #find({ cause, module, declared, part }: Tag, space: Space): number {
    let known = this.#byModule.get(module);
    if (known === undefined) {
      known = [];
      this.#byModule.set(module, known);
    }
    for (const { owner, index } of known) {
      const isSame = owner.cause === cause && owner.space === space;
      if (isSame && owner.declared === declared && owner.part === part) return index;
    }
    const index = this.owners.length;
    const owner: Owner = {
      cause,
      module,
      space,
      ...(declared === undefined ? {} : { declared }),
      ...(part === undefined ? {} : { part }),
    };
    this.owners.push(owner);
    this.runs.push(this.#run);
    known.push({ owner, index });
    return index;
  }
}

/** A live buffer. */
interface HeldBuffer {
  readonly bytes: Bytes;
  owner: number;
  /**
   * The number of the event that allocated the buffer; -1 if a scope set a tag when the buffer was allocated, or if the buffer
   * was retagged since.
   */
  event: number;
}

/**
 * Collects the events of one rank, step by step.
 *
 * [Note: recorder] Every allocation or free appends a number to each of three columns and changes two sums. The peak is stored as
 * the number of the event that reached it. To make a record, the columns are replayed up to that event; the result is the bytes
 * by owner at the peak.
 */
export class Recorder implements Observer {
  readonly rank: number;
  readonly world: number;
  /** Those who get the points that the main thread is about to pass. */
  readonly points = new PointListeners();
  readonly #clock: () => Seconds;
  readonly #cpu: ThreadCpuClock | undefined;
  readonly #table = new OwnerTable();
  readonly #buffers = new Map<BufferId, HeldBuffer>();
  /** Live bytes by owner. */
  readonly #live: Bytes[] = [];
  #deviceBytes: Bytes = 0;
  #start: StepStart | undefined;
  #events = new StepEvents();
  #peak: Peak = { bytes: 0, numEvents: 0 };
  /** Number of events before the open step. */
  #numEarlier = 0;
  #run = 0;
  #numUnknownFrees = 0;

  /** Tests and dry runs pass their own `clock`; `cpu` is the CPU clock of the main thread. */
  constructor(
    { rank, world }: { readonly rank: number; readonly world: number },
    clock: () => Seconds = now,
    cpu?: ThreadCpuClock,
  ) {
    this.rank = rank;
    this.world = world;
    this.#clock = clock;
    this.#cpu = cpu;
  }

  allocated(buffer: BufferId, bytes: Bytes, _dtype: DType, tag: Tag, space: Space): void {
    if (this.#buffers.has(buffer)) this.freed(buffer);
    const owner = this.#table.indexOf(tag, space);
    const event = isUnscoped(tag) ? this.#numEarlier + this.#events.seconds.length : -1;
    this.#buffers.set(buffer, { bytes, owner, event });
    this.#note(owner, bytes);
    if (this.#deviceBytes > this.#peak.bytes) this.#peak = this.#peakNow();
  }

  retagged(buffer: BufferId, tag: Tag): void {
    const held = this.#buffers.get(buffer);
    if (held === undefined) return;
    const { bytes, owner: before } = held;
    const after = this.#table.indexOf(tag, this.#table.owners[before]?.space ?? 'device');
    if (after === before) return;
    held.owner = after;
    const event = held.event - this.#numEarlier;
    held.event = -1;
    if (tag.cause === 'batch' && event >= 0 && this.#start !== undefined && !this.#events.isFull) {
      // The event that allocated the buffer is corrected: it gets the tag of a batch; see [Note: batches of cells].
      this.#events.owner[event] = after;
      this.#live[before] = (this.#live[before] ?? 0) - bytes;
      this.#live[after] = (this.#live[after] ?? 0) + bytes;
      return;
    }
    const at = this.#start === undefined ? 0 : this.#clock();
    this.#note(before, -bytes, at);
    this.#note(after, bytes, at);
  }

  freed(buffer: BufferId): void {
    const held = this.#buffers.get(buffer);
    if (held === undefined) {
      this.#numUnknownFrees++;
      return;
    }
    this.#note(held.owner, -held.bytes);
    this.#buffers.delete(buffer);
  }

  recounted(live: readonly LiveBuffer[]): void {
    this.abandonStep();
    this.enter(this.#run);
    const ids = new Set(live.map(({ id }) => id));
    for (const buffer of [...this.#buffers.keys()]) if (!ids.has(buffer)) this.#buffers.delete(buffer);
    this.#live.fill(0);
    this.#deviceBytes = 0;
    for (const { id, bytes, tag, space } of live) {
      const owner = this.#buffers.get(id)?.owner ?? this.#table.indexOf(tag, space);
      this.#buffers.set(id, { bytes, owner, event: -1 });
      this.#live[owner] = (this.#live[owner] ?? 0) + bytes;
      if (space === 'device') this.#deviceBytes += bytes;
    }
  }

  collective(event: CollectiveEvent): void {
    if (this.#start !== undefined) this.#events.addCollective(event);
  }

  span(event: SpanEvent): void {
    if (this.#start !== undefined) this.#events.addSpan(event);
  }

  /**
   * Sets the run to which new buffers belong; 0 means no run. Do not call this method within a step, because a step's record
   * has totals of only one run's buffers: the buffers of the run that is set when the record is made.
   */
  enter(run: number): void {
    this.#run = run;
    this.#table.enter(run);
  }

  /** Starts a step. Drops the events of an unfinished step, but still counts the buffers of that step. */
  beginStep(step: number): void {
    this.abandonStep();
    const [deviceBytes, live] = [this.#deviceBytes, this.#live.slice()];
    this.#start = { step, at: this.#clock(), cpu: this.#cpu?.(), live, deviceBytes };
    this.#peak = { bytes: deviceBytes, numEvents: 0 };
  }

  /** Undefined while nobody listens. */
  get reached(): PointListener | undefined {
    return this.points.reached;
  }

  /** The number of the open step; 0 if no step is open. */
  get openStep(): number {
    return this.#start?.step ?? 0;
  }

  /** Number of spans of the open step. */
  get numSpans(): number {
    return this.#events.spans.length;
  }

  /** Whether the open step has any events. */
  get hasEvents(): boolean {
    const { seconds, collectives, spans } = this.#events;
    return seconds.length + collectives.length + spans.length > 0;
  }

  /** Drops the events of the unfinished step, if there is one, but still counts the buffers of that step. */
  abandonStep(): void {
    this.#start = undefined;
    // A buffer that is allocated between two steps gets the number that the next event would have. Adding 1 reserves this
    // number, so that no event of the next step has the same number.
    this.#numEarlier += this.#events.seconds.length + 1;
    this.#events = new StepEvents();
  }

  /**
   * Ends the step and returns its record. Throws: CHECK if `engineBytes` differs from the ledger's count, INTERNAL if no
   * step was started.
   */
  endStep(facts: StepFacts = {}): StepRecord {
    return this.recordOf(this.close(this.moment(facts.engineBytes)), facts);
  }

  /** Returns the present moment of the step, for `close` and `cut`. Throws: as `endStep`. */
  moment(engineBytes?: Bytes): Moment {
    const { step } = this.#begun();
    this.#compare(engineBytes, step);
    return {
      at: this.#clock(),
      cpu: this.#cpu?.(),
      live: this.#live.slice(),
      deviceBytes: this.#deviceBytes,
      numBuffers: this.#buffers.size,
      numEvents: this.#events.seconds.length,
      numCollectives: this.#events.collectives.length,
      numSpans: this.#events.spans.length,
      peak: this.#peak,
      isCompared: engineBytes !== undefined,
    };
  }

  /** Ends the step at a moment, and drops later events. Throws: INTERNAL if no step was started. */
  close(end: Moment): EndedStep {
    const start = this.#begun();
    const events = this.#events;
    this.abandonStep();
    events.splitAt(end, 0);
    return { start, end, events };
  }

  /** Ends the step at a moment; later events begin the next step. Throws: INTERNAL if no step was started. */
  cut(end: Moment): EndedStep {
    const start = this.#begun();
    const events = this.#events;
    this.#events = events.splitAt(end, end.at - start.at);
    this.#start = { ...end, step: start.step + 1 };
    this.#peak = this.#highestSince(end);
    this.#numEarlier += end.numEvents;
    return { start, end, events };
  }

  /** Makes the record of an ended step, for the run that is set now. */
  recordOf(ended: EndedStep, facts: Omit<StepFacts, 'engineBytes'> = {}): StepRecord {
    const { rank, world } = this;
    return stepRecord(ended, facts, { rank, world, table: this.#table, run: this.#run });
  }

  /** Returns bytes on the device now, by cause. */
  liveBytes(): BytesByCause {
    const bytes = noBytes();
    for (const { cause, bytes: held } of this.liveByModule()) bytes[cause] += held;
    return bytes;
  }

  /** Returns bytes on the device now, by cause and module, largest first, for out-of-memory errors. */
  liveByModule(): { cause: MemoryCause; module: string; bytes: Bytes }[] {
    return this.#table.owners
      .map(({ cause, module, space }, i) => ({ cause, module, space, bytes: this.#live[i] ?? 0 }))
      .filter(({ space, bytes }) => space === 'device' && bytes > 0)
      .map(({ cause, module, bytes }) => ({ cause, module, bytes }))
      .sort((a, b) => b.bytes - a.bytes);
  }

  #begun(): StepStart {
    if (this.#start !== undefined) return this.#start;
    throw new ShardlabError('INTERNAL', `[rank ${this.rank}/${this.world}] endStep without beginStep`);
  }

  #note(owner: number, deltaBytes: Bytes, at?: Seconds): void {
    this.#live[owner] = (this.#live[owner] ?? 0) + deltaBytes;
    if (this.#table.owners[owner]?.space === 'device') this.#deviceBytes += deltaBytes;
    if (this.#start === undefined) return;
    this.#events.add((at ?? this.#clock()) - this.#start.at, owner, deltaBytes);
  }

  #peakNow(): Peak {
    const { isFull, seconds } = this.#events;
    const peak = { bytes: this.#deviceBytes, numEvents: seconds.length };
    if (!isFull || this.#start === undefined) return peak;
    return { ...peak, later: { held: this.#live.slice(), seconds: this.#clock() - this.#start.at } };
  }

  /** Returns the peak of the open step, which began at the given moment. */
  #highestSince({ deviceBytes }: Moment): Peak {
    if (this.#events.isFull) return this.#peakNow();
    const { owner, delta } = this.#events;
    let [bytes, highest]: [Bytes, Peak] = [deviceBytes, { bytes: deviceBytes, numEvents: 0 }];
    owner.forEach((index, i) => {
      if (this.#table.owners[index]?.space === 'device') bytes += delta[i] ?? 0;
      if (bytes > highest.bytes) highest = { bytes, numEvents: i + 1 };
    });
    return highest;
  }

  #compare(engineBytes: Bytes | undefined, step: number): void {
    if (engineBytes === undefined || engineBytes === this.#deviceBytes) return;
    const residual = engineBytes - this.#deviceBytes;
    throw new ShardlabError(
      'CHECK',
      `[rank ${this.rank}/${this.world}] after step ${step} the engine holds ${engineBytes} bytes, but the ledger counts ` +
        `${this.#deviceBytes}: a residual of ${residual} bytes (${formatBytes(residual)}), with ${this.#numUnknownFrees} ` +
        'frees of unknown buffers; some code changed buffers without reporting to the observer',
      { rank: this.rank, details: { engineBytes, ledgerBytes: this.#deviceBytes, residualBytes: residual } },
    );
  }
}

/** Whether a buffer was allocated outside of all scopes of tags. */
function isUnscoped({ cause, module }: Tag): boolean {
  return cause === 'temp' && module === '';
}

/** Facts about an ended step that the caller knows. */
export interface StepFacts {
  readonly loss?: number | null;
  readonly tokens?: number | null;
  /** The engine's own count of bytes (engine.memory.bytes), which the ledger's count must equal. */
  readonly engineBytes?: Bytes;
  readonly process?: ProcessMemory | null;
  /** Whether to store every allocation and free (about 20 bytes of JSON each). Default true. */
  readonly curve?: boolean;
}

/** The rank whose step is recorded, and the run whose buffers the record contains. */
interface Place {
  readonly rank: number;
  readonly world: number;
  readonly table: OwnerTable;
  readonly run: number;
}

/** Makes the record of an ended step; see [Note: recorder]. */
function stepRecord(
  { start, end, events }: EndedStep,
  facts: Omit<StepFacts, 'engineBytes'>,
  { rank, world, table, run }: Place,
): StepRecord {
  const own = (bytes: readonly Bytes[]): Bytes[] =>
    table.runs.map((ofRun, i) => (ofRun === run ? (bytes[i] ?? 0) : 0));
  const onDevice = (bytes: readonly Bytes[]): Bytes =>
    table.owners.reduce((sum, { space }, i) => sum + (space === 'device' ? (bytes[i] ?? 0) : 0), 0);
  const { peak } = end;
  const atPeak = own(peak.later?.held ?? replay(start.live, events, peak.numEvents));
  const restBytes = onDevice(own(end.live));
  const hasCurve = facts.curve !== false && !events.isFull;
  const listed = listedOwners(table, run, hasCurve ? events.owner : []);
  const of = (bytes: readonly Bytes[]): Bytes[] => listed.map((owner) => bytes[owner] ?? 0);
  return {
    step: start.step,
    rank,
    world,
    start: start.at,
    end: end.at,
    ...(end.cpu === undefined ? {} : { startCpu: start.cpu, endCpu: end.cpu }),
    loss: facts.loss ?? null,
    tokens: facts.tokens ?? null,
    memory: {
      owners: listed.map((owner) => table.owners[owner] as Owner), // `listed` has only indices of this table
      atStart: of(own(start.live)),
      atPeak: of(atPeak),
      atRest: of(own(end.live)),
      peakBytes: onDevice(atPeak),
      peakSeconds: microseconds(peak.later?.seconds ?? events.seconds[peak.numEvents - 1] ?? 0),
      restBytes,
      elsewhereBytes: end.deviceBytes - restBytes,
      numBuffersAtRest: end.numBuffers,
      residualBytes: end.isCompared ? 0 : null,
      curve: hasCurve ? curveOf(events, listed) : null,
      process: facts.process ?? null,
    },
    collectives: events.collectives.map(({ kind: _, ...rest }) => rest),
    spans: events.spans.map(({ kind: _, ...rest }) => rest),
  };
}

/**
 * Returns the owners that a record lists: the owners of the record's run and of its curve. If a record listed the owners of
 * all earlier runs, records would grow without limit.
 */
function listedOwners({ runs }: OwnerTable, run: number, inCurve: readonly number[]): number[] {
  const own = runs.flatMap((ofRun, owner) => (ofRun === run ? [owner] : []));
  return [...new Set([...own, ...inCurve])].sort((a, b) => a - b);
}

/** Returns the events of a step; owners are indices in `listed`. */
function curveOf({ seconds, owner, delta }: StepEvents, listed: readonly number[]): MemoryCurve {
  const indices = new Map(listed.map((index, i) => [index, i]));
  return {
    seconds: seconds.map(microseconds),
    owner: owner.map((index) => indices.get(index) ?? -1),
    deltaBytes: delta,
  };
}

/** Returns bytes by owner after a number of events. */
function replay(atStart: readonly Bytes[], { owner, delta }: StepEvents, numEvents: number): Bytes[] {
  const held = atStart.slice();
  for (let i = 0; i < numEvents; i++) {
    const at = owner[i] ?? 0;
    held[at] = (held[at] ?? 0) + (delta[i] ?? 0);
  }
  return held;
}

/** Rounds to 0.1 µs, so that records are short as JSON. */
function microseconds(seconds: Seconds): Seconds {
  return Math.round(seconds * 1e7) / 1e7;
}

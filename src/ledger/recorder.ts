import type { DType } from '../core/dtypes';
import { ShardlabError } from '../core/errors';
import type { BufferId, CollectiveEvent, MemoryCause, Observer, Space, SpanEvent, Tag } from '../core/events';
import type { ThreadCpuClock } from '../core/thread-cpu';
import { type Bytes, formatBytes, now, type Seconds } from '../core/units';
import { OwnerTable } from './owner-table';
import {
  type BytesByCause,
  type MemoryCurve,
  noBytes,
  type Owner,
  type ProcessMemory,
  type StepRecord,
} from './record';

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

/**
 * Collects the events of one rank, step by step.
 *
 * [Note: recorder] Every allocation or free appends three numbers to columns and adjusts two sums. The peak is stored as the
 * number of the event that reached it; at the step's end, a replay of the columns up to that event finds the bytes by owner.
 */
export class Recorder implements Observer {
  readonly rank: number;
  readonly world: number;
  readonly #clock: () => Seconds;
  readonly #cpu: ThreadCpuClock | undefined;
  readonly #table = new OwnerTable();
  /** Size and owner of each live buffer. */
  readonly #bytesOf = new Map<BufferId, Bytes>();
  readonly #ownerOf = new Map<BufferId, number>();
  /** Live bytes by owner. */
  readonly #live: Bytes[] = [];
  #deviceBytes: Bytes = 0;
  readonly #seconds: Seconds[] = [];
  readonly #owner: number[] = [];
  readonly #delta: Bytes[] = [];
  #collectives: CollectiveEvent[] = [];
  #spans: SpanEvent[] = [];
  #atStart: Bytes[] = [];
  #peakBytes: Bytes = 0;
  /** Number of events up to and including the event that reached the peak. */
  #peakEvents = 0;
  #step: number | undefined;
  #run = 0;
  #start: Seconds = 0;
  #startCpu: Seconds | undefined;
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
    if (this.#bytesOf.has(buffer)) this.freed(buffer);
    const owner = this.#table.indexOf(tag, space);
    this.#bytesOf.set(buffer, bytes);
    this.#ownerOf.set(buffer, owner);
    this.#note(owner, bytes);
    if (this.#deviceBytes > this.#peakBytes) {
      this.#peakBytes = this.#deviceBytes;
      this.#peakEvents = this.#seconds.length;
    }
  }

  retagged(buffer: BufferId, tag: Tag): void {
    const [bytes, before] = [this.#bytesOf.get(buffer), this.#ownerOf.get(buffer)];
    if (bytes === undefined || before === undefined) return;
    const space = this.#table.owners[before]?.space ?? 'device';
    const after = this.#table.indexOf(tag, space);
    if (after === before) return;
    this.#ownerOf.set(buffer, after);
    const at = this.#step === undefined ? 0 : this.#clock();
    this.#note(before, -bytes, at);
    this.#note(after, bytes, at);
  }

  freed(buffer: BufferId): void {
    const [bytes, owner] = [this.#bytesOf.get(buffer), this.#ownerOf.get(buffer)];
    if (bytes === undefined || owner === undefined) {
      this.#numUnknownFrees++;
      return;
    }
    this.#note(owner, -bytes);
    this.#bytesOf.delete(buffer);
    this.#ownerOf.delete(buffer);
  }

  collective(event: CollectiveEvent): void {
    if (this.#step !== undefined) this.#collectives.push(event);
  }

  span(event: SpanEvent): void {
    if (this.#step !== undefined) this.#spans.push(event);
  }

  /**
   * Sets the run to which new buffers belong; 0 means no run. Do not call it within a step, because a step's record
   * contains only the run that is set at the step's end.
   */
  enter(run: number): void {
    this.#run = run;
    this.#table.enter(run);
  }

  /** Starts a step. Drops the events of an unfinished step, but still counts its buffers. */
  beginStep(step: number): void {
    this.#step = step;
    this.#seconds.length = 0;
    this.#owner.length = 0;
    this.#delta.length = 0;
    this.#collectives = [];
    this.#spans = [];
    this.#atStart = this.#live.slice();
    this.#peakBytes = this.#deviceBytes;
    this.#peakEvents = 0;
    this.#start = this.#clock();
    this.#startCpu = this.#cpu?.();
  }

  /**
   * Ends the step and returns its record. Throws: CHECK if `engineBytes` differs from the ledger's count, INTERNAL if no
   * step was started.
   */
  endStep(facts: StepFacts = {}): StepRecord {
    if (this.#step === undefined) {
      throw new ShardlabError('INTERNAL', `[rank ${this.rank}/${this.world}] endStep without beginStep`);
    }
    const end = this.#clock();
    const endCpu = this.#cpu?.();
    const step = this.#step;
    this.#step = undefined;
    this.#compare(facts.engineBytes, step);
    const atPeak = this.#replay(this.#peakEvents);
    const restBytes = this.#onDevice(this.#own(this.#live));
    const hasCurve = facts.curve !== false;
    const listed = this.#listed(hasCurve ? this.#owner : []);
    const of = (bytes: readonly Bytes[]): Bytes[] => listed.map((owner) => bytes[owner] ?? 0);
    return {
      step,
      rank: this.rank,
      world: this.world,
      start: this.#start,
      end,
      ...(endCpu === undefined ? {} : { startCpu: this.#startCpu, endCpu }),
      loss: facts.loss ?? null,
      tokens: facts.tokens ?? null,
      memory: {
        owners: listed.map((owner) => this.#table.owners[owner] as Owner), // `listed` has only indices of this table
        atStart: of(this.#own(this.#atStart)),
        atPeak: of(atPeak),
        atRest: of(this.#own(this.#live)),
        peakBytes: this.#onDevice(atPeak),
        peakSeconds: this.#peakEvents === 0 ? 0 : microseconds(this.#seconds[this.#peakEvents - 1] ?? 0),
        restBytes,
        elsewhereBytes: this.#deviceBytes - restBytes,
        numBuffersAtRest: this.#bytesOf.size,
        residualBytes: facts.engineBytes === undefined ? null : 0,
        curve: hasCurve ? this.#curve(listed) : null,
        process: facts.process ?? null,
      },
      collectives: this.#collectives.map(({ kind: _, ...rest }) => rest),
      spans: this.#spans.map(({ kind: _, ...rest }) => rest),
    };
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

  #note(owner: number, deltaBytes: Bytes, at?: Seconds): void {
    this.#live[owner] = (this.#live[owner] ?? 0) + deltaBytes;
    if (this.#table.owners[owner]?.space === 'device') this.#deviceBytes += deltaBytes;
    if (this.#step === undefined) return;
    this.#seconds.push((at ?? this.#clock()) - this.#start);
    this.#owner.push(owner);
    this.#delta.push(deltaBytes);
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

  /** Returns bytes by owner, with 0 for owners of other runs. */
  #own(bytes: readonly Bytes[]): Bytes[] {
    return this.#table.runs.map((run, i) => (run === this.#run ? (bytes[i] ?? 0) : 0));
  }

  /**
   * Returns the owners that a record lists: the owners of its run and of its curve. If it listed the owners of all
   * earlier runs, records would grow without limit.
   */
  #listed(inCurve: readonly number[]): number[] {
    const own = this.#table.runs.flatMap((run, owner) => (run === this.#run ? [owner] : []));
    return [...new Set([...own, ...inCurve])].sort((a, b) => a - b);
  }

  #onDevice(bytes: readonly Bytes[]): Bytes {
    return this.#table.owners.reduce(
      (sum, { space }, i) => sum + (space === 'device' ? (bytes[i] ?? 0) : 0),
      0,
    );
  }

  /** Returns the events of the step; owners are indices in `listed`. */
  #curve(listed: readonly number[]): MemoryCurve {
    const indices = new Map(listed.map((owner, i) => [owner, i]));
    return {
      seconds: this.#seconds.map(microseconds),
      owner: this.#owner.map((owner) => indices.get(owner) ?? -1),
      deltaBytes: this.#delta.slice(),
    };
  }

  #replay(numEvents: number): Bytes[] {
    const held = this.#atStart.slice();
    this.#owner.slice(0, numEvents).forEach((owner, i) => {
      held[owner] = (held[owner] ?? 0) + (this.#delta[i] ?? 0);
    });
    return this.#own(held);
  }
}

/** Rounds to 0.1 µs, so that records are short as JSON. */
function microseconds(seconds: Seconds): Seconds {
  return Math.round(seconds * 1e7) / 1e7;
}

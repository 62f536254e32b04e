import type { CollectiveEvent, CollectiveOp, CollectiveProgress } from '../core/events';
import type * as tf from '../core/tf';
import type { Seconds } from '../core/units';
import type { Call, CallHeader, CallResult, ThreadProgress } from '../transport/call';
import { VALUE_BYTES } from '../transport/call';
import type { GroupIdentity } from '../transport/mismatch';
import type { PlaneGroup, PostedCall } from '../transport/plane';
import { copyBlocks, roundBlocks } from './blocks';
import { type GroupContext, sweep } from './group-context';
import { HeldTensors } from './held-tensors';
import type { Work } from './types';
import { wireBytes } from './wire-bytes';
import { FinishedWork, PostedWork } from './work';

/** Tensors of a call. */
export interface CallTensors {
  /** Tensors whose values the call needs while it runs asynchronously. */
  readonly held: readonly tf.Tensor[];
  /** The tensor that was made for the result; disposed if the call fails. */
  readonly made: tf.Tensor | undefined;
}

/** Time on the engine's clock, and on the main thread's CPU clock if there is one. */
interface Moment {
  readonly at: Seconds;
  readonly cpu: Seconds;
}

/**
 * Runs a group's calls: blocking, posted, or at once in a group of one; reports to the status board and the observer.
 */
export class CallRunner {
  readonly #context: GroupContext;
  readonly #identity: GroupIdentity;
  readonly #plane: PlaneGroup | undefined;
  /** Posted sends and recvs by direction; a blocking one waits for them. */
  readonly #directions = new Map<string, PostedWork<unknown>>();

  constructor(context: GroupContext, identity: GroupIdentity, plane: PlaneGroup | undefined) {
    this.#context = context;
    this.#identity = identity;
    this.#plane = plane;
  }

  /** Starts a call; its work gives `value`. */
  start<T>(call: Call, tensors: CallTensors, value: T): Work<T> {
    if (this.#context.pending.size > 0) sweep(this.#context);
    if (this.#plane === undefined) return this.#runAlone(call, value);
    return call.header.async
      ? this.#post(this.#plane, call, tensors, value)
      : this.#runBlocking(this.#plane, call, value);
  }

  /** Runs an internal call of the group, which is reported only to the status board. */
  runInternal(call: Call): CallResult {
    if (this.#plane === undefined) {
      const at = this.#now();
      return { started: at, ended: at, values: [call.header.value], agrees: true };
    }
    return this.#runWatched(this.#plane, call);
  }

  #runBlocking<T>(plane: PlaneGroup, call: Call, value: T): Work<T> {
    this.#directions.get(directionOf(call.header))?.settle();
    const posted = this.#moment();
    const result = this.#runWatched(plane, call);
    this.#report(call, result, posted, this.#now() - posted.at);
    return new FinishedWork(value, result.agrees);
  }

  #runWatched(plane: PlaneGroup, call: Call): CallResult {
    const { status } = this.#context;
    status.enter(call.header);
    try {
      return plane.run(call);
    } finally {
      status.leave();
    }
  }

  #post<T>(plane: PlaneGroup, call: Call, { held: needed, made }: CallTensors, value: T): Work<T> {
    const held = new HeldTensors(needed);
    const at = this.#moment();
    const posted = postOrRelease(plane, call, held);
    const { status, pending } = this.#context;
    const work: PostedWork<T> = new PostedWork(posted, held, value, this.#context.engine.clock, {
      waiting: () => status.enter(call.header),
      waited: () => status.leave(),
      settled: (result, exposed) => this.#report(call, result, at, exposed),
      ended: (ended) => pending.delete(ended),
      failed: () => made?.dispose(),
    });
    pending.add(work);
    if (isPointToPoint(call.header)) this.#directions.set(directionOf(call.header), work);
    return work;
  }

  /**
   * A group of one has no wire, but its results are rounded as on a wire, so they do not depend on the number of ranks.
   */
  #runAlone<T>(call: Call, value: T): Work<T> {
    const posted = this.#moment();
    if (this.#context.engine.hasValues) moveAlone(call);
    const result = { started: posted.at, ended: this.#now(), values: [], agrees: true };
    this.#report(call, result, posted, this.#now() - posted.at);
    return new FinishedWork(value, true);
  }

  #now(): Seconds {
    return this.#context.engine.clock.now();
  }

  #moment(): Moment {
    return { at: this.#now(), cpu: this.#context.cpu?.() ?? 0 };
  }

  #report(call: Call, result: CallResult, posted: Moment, exposed: Seconds): void {
    const resumed = this.#moment();
    const { header } = call;
    const { ranks, rank } = this.#identity;
    const event: CollectiveEvent = {
      kind: 'collective',
      // Only public collectives are reported; exchange and subgroup use runInternal.
      op: header.op as CollectiveOp,
      group: header.group,
      ranks,
      number: header.number,
      dtype: header.dtype,
      wireDType: header.wireDType,
      count: header.count,
      bytes: header.count * VALUE_BYTES,
      wireBytes: wireBytes(call, rank, ranks.length),
      cause: header.cause,
      module: header.module,
      cell: header.site.cell,
      line: header.site.line,
      async: header.async,
      posted: posted.at,
      started: result.started,
      ended: result.ended,
      exposed,
      ...(result.progress === undefined ? {} : { progress: progressOf(result.progress, posted, resumed) }),
    };
    this.#context.observer.collective(event);
  }
}

function progressOf(thread: ThreadProgress, posted: Moment, resumed: Moment): CollectiveProgress {
  return { ...thread, resumed: resumed.at, postedCpu: posted.cpu, resumedCpu: resumed.cpu };
}

function moveAlone({ header, inputs: [input], outputs: [output] }: Call): void {
  const { wireDType } = header;
  if (input !== undefined && output !== undefined && input !== output) copyBlocks(input, output);
  if (output !== undefined && (wireDType === 'bfloat16' || wireDType === 'float16'))
    roundBlocks(output, wireDType);
}

function postOrRelease(plane: PlaneGroup, call: Call, held: HeldTensors): PostedCall {
  try {
    return plane.post(call);
  } catch (error) {
    held.release();
    throw error;
  }
}

function isPointToPoint({ op }: CallHeader): boolean {
  return op === 'send' || op === 'recv';
}

function directionOf(header: CallHeader): string {
  return isPointToPoint(header) ? `${header.op} ${header.peer}` : '';
}

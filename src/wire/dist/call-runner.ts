import {
  type CollectiveEvent,
  type CollectiveOp,
  itemBytes,
  type PointAction,
  type Seconds,
  type StepPoint,
} from '../../core';
import { blocksLength, type Call, type CallHeader, type CallResult, VALUE_BYTES } from '../transport/call';
import type { GroupIdentity } from '../transport/mismatch';
import { elementsFromOutside } from '../transport/nodes';
import type { PlaneGroup, PostedCall } from '../transport/plane';
import { WaitingCall, withBrought, withResult } from './acted-call';
import { copyBlocks, roundBlocks } from './blocks';
import { type GroupContext, settleEnded } from './group-context';
import type { Work } from './types';
import { type CallTensors, FinishedWork, hold, PostedWork } from './work';

/** One moment, as a time on the engine's clock and a time on the main thread's CPU clock. */
interface Moment {
  readonly at: Seconds;
  readonly cpu: Seconds;
}

/**
 * Runs a group's calls: blocking calls on the main thread, posted (asynchronous) calls on the comm thread, and all calls of a
 * group of one rank within the process.
 */
export class CallRunner {
  readonly #context: GroupContext;
  readonly #identity: GroupIdentity;
  readonly #plane: PlaneGroup | undefined;
  /**
   * The last posted call of each direction (a send to one peer, or a recv from one peer). A blocking call of the same direction
   * begins only after this posted call has ended.
   */
  readonly #directions = new Map<string, PostedWork<unknown>>();
  /** A call that is to change places with the next one. */
  #waiting: WaitingCall<unknown> | undefined;

  constructor(context: GroupContext, identity: GroupIdentity, plane: PlaneGroup | undefined) {
    this.#context = context;
    this.#identity = identity;
    this.#plane = plane;
  }

  /** Starts a call and returns its work handle; the result of the work is `value`. */
  start<T>(call: Call, tensors: CallTensors, value: T): Work<T> {
    settleEnded(this.#context);
    const action = this.#context.observer.reached?.(this.#pointOf(call.header));
    if (action === undefined && this.#waiting === undefined) return this.#begin(call, tensors, value);
    return this.#startActed(action ?? {}, call, tensors, value);
  }

  #begin<T>(call: Call, tensors: CallTensors, value: T): Work<T> {
    if (this.#plane === undefined) return this.#runAlone(call, value);
    return call.header.async
      ? this.#post(this.#plane, call, tensors, value)
      : this.#runBlocking(this.#plane, call, value);
  }

  /** [Note: actions on calls] */
  #startActed<T>(action: PointAction, ownCall: Call, { held, made }: CallTensors, value: T): Work<T> {
    const { engine } = this.#context;
    const { call, copies } = withBrought(engine, ownCall, action);
    const { header } = call;
    const isSwapped = action.swaps === true && this.#plane !== undefined && this.#waiting === undefined;
    // A call that starts later needs its tensors until then.
    const kept = (isSwapped ? [...held, ...copies] : []).map(hold);
    const begin = (number: number): Work<T> => {
      try {
        const tensors = { held: header.async ? [...held, ...copies] : held, made };
        const work = this.#begin({ ...call, header: { ...header, number } }, tensors, value);
        return withResult(engine, { call, held, rank: this.#identity.rank, work }, action);
      } finally {
        for (const tensor of [...copies, ...kept]) tensor.dispose();
      }
    };
    if (!isSwapped) return this.#afterWaiting(header, begin);
    this.#waiting = new WaitingCall(header, begin);
    return this.#waiting as WaitingCall<T>;
  }

  /** Starts a call; if one waits to change places with it, starts that one next. */
  #afterWaiting<T>(header: CallHeader, begin: (number: number) => Work<T>): Work<T> {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting?.isBefore(header) !== true) return begin(header.number);
    const work = begin(waiting.header.number);
    waiting.start(header.number);
    return work;
  }

  /** Runs an internal call of the group. The status board shows such a call, but the observer gets no event. */
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
    const { status, pending } = this.#context;
    status.enter(call.header, pending.size);
    try {
      return plane.run(call);
    } finally {
      status.leave();
    }
  }

  #post<T>(plane: PlaneGroup, call: Call, { held: needed, made }: CallTensors, value: T): Work<T> {
    const held = needed.map(hold);
    const at = this.#moment();
    let posted: PostedCall;
    try {
      posted = plane.post(call);
    } catch (error) {
      for (const tensor of held) tensor.dispose();
      throw error;
    }
    const report = (result: CallResult, exposed: Seconds): void => this.#report(call, result, at, exposed);
    const work = new PostedWork(this.#context, { call, posted }, { held, made }, value, report);
    if (isPointToPoint(call.header)) this.#directions.set(directionOf(call.header), work);
    return work;
  }

  /**
   * Runs a call in a group of one rank. The results are rounded to the wire's dtype, as they are in a group of several ranks.
   */
  #runAlone<T>(call: Call, value: T): Work<T> {
    const posted = this.#moment();
    if (this.#context.engine.hasValues) moveAlone(call);
    const result = { started: posted.at, ended: this.#now(), values: [], agrees: true };
    this.#report(call, result, posted, this.#now() - posted.at);
    return new FinishedWork(value, true);
  }

  #pointOf(header: CallHeader): StepPoint {
    const { op, group, number, wireDType, count, cause, module, detail, site, async } = header;
    const { ranks } = this.#identity;
    const { cell, line } = site;
    const peer = namesPeer(header) ? { peer: ranks[header.peer] } : {};
    const collective = { group, ranks, ...peer, number, cause, wireDType, count, async, cell, line, detail };
    return { name: op as CollectiveOp, module, collective };
  }

  #now(): Seconds {
    return this.#context.engine.clock.now();
  }

  #moment(): Moment {
    return { at: this.#now(), cpu: this.#context.cpu?.() ?? 0 };
  }

  #report(call: Call, result: CallResult, posted: Moment, exposed: Seconds): void {
    const resumed = this.#moment();
    const resumption = { resumed: resumed.at, postedCpu: posted.cpu, resumedCpu: resumed.cpu };
    const { op, group, number, dtype, wireDType, count, cause, module, site, async } = call.header;
    const { ranks } = this.#identity;
    const event: CollectiveEvent = {
      kind: 'collective',
      // Only public collectives are reported; the calls 'exchange' and 'subgroup' use `runInternal`.
      op: op as CollectiveOp,
      group,
      ranks,
      ...(namesPeer(call.header) && { peer: ranks[call.header.peer] }),
      number,
      dtype,
      wireDType,
      count,
      bytes: count * VALUE_BYTES,
      ...this.#bytesOf(call),
      cause,
      module,
      cell: site.cell,
      line: site.line,
      async,
      posted: posted.at,
      started: result.started,
      ended: result.ended,
      exposed,
      ...(result.progress && { progress: { ...result.progress, ...resumption } }),
    };
    this.#context.observer.collective(event);
  }

  /** Returns the bytes that this rank receives in a call, at the wire's dtype. */
  #bytesOf(call: Call): Pick<CollectiveEvent, 'wireBytes' | 'outsideBytes'> {
    const { ranks, rank } = this.#identity;
    const { op, peer, wireDType } = call.header;
    const received = wireElements(call, rank, ranks.length);
    const wireBytes = received * itemBytes(wireDType);
    const { nodes } = this.#context;
    if (nodes === undefined) return { wireBytes };
    const place = { ranks, rank, peer, ranksPerNode: nodes.ranksPerNode };
    const outputs = call.outputs.map(blocksLength);
    return {
      wireBytes,
      outsideBytes: elementsFromOutside(op, { received, outputs }, place) * itemBytes(wireDType),
    };
  }
}

function moveAlone({ header, inputs: [input], outputs: [output] }: Call): void {
  const { wireDType } = header;
  if (input !== undefined && output !== undefined && input !== output) copyBlocks(input, output);
  if (output !== undefined && (wireDType === 'bfloat16' || wireDType === 'float16'))
    roundBlocks(output, wireDType);
}

/** Whether events name the rank that the call names. */
function namesPeer(header: CallHeader): boolean {
  return isPointToPoint(header) || ['reduce', 'gather', 'scatter'].includes(header.op);
}

function isPointToPoint({ op }: CallHeader): boolean {
  return op === 'send' || op === 'recv';
}

function directionOf(header: CallHeader): string {
  return isPointToPoint(header) ? `${header.op} ${header.peer}` : '';
}

/**
 * Returns the elements that a rank of a group receives from the others. The sum over all ranks equals the sum for the ring
 * algorithm. allReduce is a reduce-scatter of parts whose lengths differ by at most one element, then an all-gather of the parts.
 * Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms".
 */
function wireElements({ header, inputs, outputs }: Call, rank: number, size: number): number {
  const others = size - 1;
  const outputTotals = outputs.map(blocksLength);
  const fromOthers = (): number =>
    outputTotals.reduce((sum, length, index) => sum + (index === rank ? 0 : length), 0);
  switch (header.op) {
    case 'allReduce': {
      const total = blocksLength(inputs[0] ?? []);
      const own = partLength(total, rank, size);
      return others * own + (total - own);
    }
    case 'reduceScatter':
      return others * (outputTotals[0] ?? 0);
    case 'allGather':
    case 'allToAll':
    case 'gather':
      return fromOthers();
    case 'broadcast':
      return header.peer === rank ? 0 : blocksLength(inputs[0] ?? []);
    case 'reduce':
      // The chain begins at the rank after the root, and ends at the root.
      return (header.peer + 1) % size === rank ? 0 : blocksLength(inputs[0] ?? []);
    case 'scatter':
      return header.peer === rank ? 0 : (outputTotals[0] ?? 0);
    case 'recv':
      return outputTotals[0] ?? 0;
    default:
      return 0;
  }
}

function partLength(total: number, rank: number, size: number): number {
  return Math.floor(((rank + 1) * total) / size) - Math.floor((rank * total) / size);
}

import { type CollectiveEvent, ConfigError, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import type { Call, CallHeader, CallOp, ValueDType } from '../transport/call';
import { type GroupIdentity, speaker } from '../transport/mismatch';
import type { PlaneGroup } from '../transport/plane';
import { signatureOf } from '../transport/record';
import { commonDType, countOf, resolvePieces, tensorsOf, wholePiece } from './blocks';
import { CallRunner } from './call-runner';
import {
  type GroupContext,
  type MadeGroup,
  nextOrdinal,
  restartedMember,
  settleEnded,
} from './group-context';
import { makeNodeLevels } from './hierarchical';
import type { CollectiveOptions, NodeLevels, PieceList, ProcessGroup, ReduceOp, Work } from './types';
import {
  checkOneListEach,
  checkOwnPart,
  checkRank,
  checkRootLists,
  checkSubgroup,
  contentsIn,
  rowsPerRank,
  wireOf,
} from './validation';

/** The name of the group of all ranks. */
export const WORLD = 'world';

interface CallParts {
  readonly op: CallOp;
  readonly inputs: readonly PieceList[];
  readonly outputs: readonly PieceList[];
  readonly reduction?: ReduceOp;
  readonly peer?: number;
  readonly value?: number;
  readonly signature?: number;
}

/** A group of ranks that communicate over a plane. If there is no plane, the group contains only this rank. */
export class Group implements ProcessGroup, MadeGroup {
  readonly name: string;
  readonly ranks: readonly number[];
  readonly rank: number;
  readonly size: number;
  readonly #context: GroupContext;
  readonly #identity: GroupIdentity;
  readonly #plane: PlaneGroup | undefined;
  readonly #runner: CallRunner;
  /** The epoch in which the group was made. */
  readonly #madeIn: number;
  #levels: { readonly epoch: number; readonly groups: NodeLevels | null } | undefined;
  #isDestroyed = false;
  #epoch = 0;
  #number = 0;
  #pairNumbers = new Map<string, number>();

  constructor(context: GroupContext, identity: GroupIdentity, plane: PlaneGroup | undefined) {
    this.#context = context;
    this.#identity = identity;
    this.#plane = plane;
    this.name = identity.name;
    this.ranks = identity.ranks;
    this.rank = identity.rank;
    this.size = identity.ranks.length;
    this.#madeIn = context.plane?.epoch ?? 1;
    this.#runner = new CallRunner(context, identity, plane);
    context.groupMade?.(this);
  }

  allReduce(tensor: tf.Tensor, op: ReduceOp = 'sum', options: CollectiveOptions = {}): Work<tf.Tensor> {
    const whole = [wholePiece(tensor)];
    return this.#start({ op: 'allReduce', inputs: whole, outputs: whole, reduction: op }, options, tensor);
  }

  allReducePieces(pieces: PieceList, op: ReduceOp = 'sum', options: CollectiveOptions = {}): Work<void> {
    const lists = [pieces];
    return this.#start({ op: 'allReduce', inputs: lists, outputs: lists, reduction: op }, options, undefined);
  }

  reduceScatterPieces(
    inputs: readonly PieceList[],
    output: PieceList,
    op: ReduceOp = 'sum',
    options: CollectiveOptions = {},
  ): Work<void> {
    checkOneListEach(this.#identity, 'reduceScatterPieces', 'inputs', inputs);
    checkOwnPart(this.#identity, 'reduceScatterPieces', output, inputs[this.rank] ?? []);
    return this.#start({ op: 'reduceScatter', inputs, outputs: [output], reduction: op }, options, undefined);
  }

  allGatherPieces(
    input: PieceList,
    outputs: readonly PieceList[],
    options: CollectiveOptions = {},
  ): Work<void> {
    checkOneListEach(this.#identity, 'allGatherPieces', 'outputs', outputs);
    checkOwnPart(this.#identity, 'allGatherPieces', input, outputs[this.rank] ?? []);
    return this.#start({ op: 'allGather', inputs: [input], outputs }, options, undefined);
  }

  allToAllPieces(
    inputs: readonly PieceList[],
    outputs: readonly PieceList[],
    options: CollectiveOptions = {},
  ): Work<void> {
    checkOneListEach(this.#identity, 'allToAllPieces', 'inputs', inputs);
    checkOneListEach(this.#identity, 'allToAllPieces', 'outputs', outputs);
    return this.#start({ op: 'allToAll', inputs, outputs }, options, undefined);
  }

  /** First exchanges the ranks' row counts, which may differ. This exchange blocks, even if the all-gather is asynchronous. */
  allGather(tensor: tf.Tensor, options: CollectiveOptions = {}): Work<tf.Tensor> {
    const [rows = 1, ...rest] = tensor.shape;
    const row = rest.reduce((product, length) => product * length, 1);
    const allRows = this.#exchange(rows, tensor, rest, options);
    const total = allRows.reduce((sum, length) => sum + length, 0);
    const tag = { cause: 'comm', module: options.module ?? '' } as const;
    const gathered = this.#context.engine.allocate([total, ...rest], tensor.dtype as ValueDType, tag);
    let offset = 0;
    const outputs = allRows.map((length): PieceList => {
      const piece = { tensor: gathered, offset, length: length * row };
      offset += length * row;
      return [piece];
    });
    return this.#startInto({ op: 'allGather', inputs: [wholePiece(tensor)], outputs }, options, gathered);
  }

  reduceScatter(tensor: tf.Tensor, op: ReduceOp = 'sum', options: CollectiveOptions = {}): Work<tf.Tensor> {
    const rows = rowsPerRank(this.#identity, 'reduceScatter', tensor);
    const dtype = commonDType([wholePiece(tensor)]);
    const tag = { cause: 'comm', module: options.module ?? '' } as const;
    const shape = [rows, ...tensor.shape.slice(1)];
    const part = this.#context.engine.allocate(shape, dtype, tag);
    const inputs = this.#partsOf(tensor);
    const outputs = [wholePiece(part)];
    return this.#startInto({ op: 'reduceScatter', inputs, outputs, reduction: op }, options, part);
  }

  allToAll(tensor: tf.Tensor, options: CollectiveOptions = {}): Work<tf.Tensor> {
    rowsPerRank(this.#identity, 'allToAll', tensor);
    const dtype = commonDType([wholePiece(tensor)]);
    const tag = { cause: 'comm', module: options.module ?? '' } as const;
    const received = this.#context.engine.allocate(tensor.shape, dtype, tag);
    const parts = { inputs: this.#partsOf(tensor), outputs: this.#partsOf(received) };
    return this.#startInto({ op: 'allToAll', ...parts }, options, received);
  }

  broadcast(tensor: tf.Tensor, source: number, options: CollectiveOptions = {}): Work<tf.Tensor> {
    checkRank(this.#identity, 'broadcast', 'source', source);
    const whole = [wholePiece(tensor)];
    return this.#start({ op: 'broadcast', inputs: whole, outputs: whole, peer: source }, options, tensor);
  }

  reduce(
    tensor: tf.Tensor,
    destination: number,
    op: ReduceOp = 'sum',
    options: CollectiveOptions = {},
  ): Work<tf.Tensor> {
    checkRank(this.#identity, 'reduce', 'destination', destination);
    const inputs = [wholePiece(tensor)];
    const outputs = destination === this.rank ? inputs : [];
    return this.#start({ op: 'reduce', inputs, outputs, reduction: op, peer: destination }, options, tensor);
  }

  gatherPieces(
    input: PieceList,
    outputs: readonly PieceList[],
    destination: number,
    options: CollectiveOptions = {},
  ): Work<void> {
    checkRank(this.#identity, 'gatherPieces', 'destination', destination);
    checkRootLists(this.#identity, 'gatherPieces', { root: destination, own: input, lists: outputs });
    return this.#start({ op: 'gather', inputs: [input], outputs, peer: destination }, options, undefined);
  }

  scatterPieces(
    inputs: readonly PieceList[],
    output: PieceList,
    source: number,
    options: CollectiveOptions = {},
  ): Work<void> {
    checkRank(this.#identity, 'scatterPieces', 'source', source);
    checkRootLists(this.#identity, 'scatterPieces', { root: source, own: output, lists: inputs });
    return this.#start({ op: 'scatter', inputs, outputs: [output], peer: source }, options, undefined);
  }

  send(tensor: tf.Tensor, destination: number, options: CollectiveOptions = {}): Work<void> {
    checkRank(this.#identity, 'send', 'destination', destination, true);
    const inputs = [wholePiece(tensor)];
    return this.#start({ op: 'send', inputs, outputs: [], peer: destination }, options, undefined);
  }

  recv(tensor: tf.Tensor, source: number, options: CollectiveOptions = {}): Work<tf.Tensor> {
    checkRank(this.#identity, 'recv', 'source', source, true);
    const outputs = [wholePiece(tensor)];
    return this.#start({ op: 'recv', inputs: [], outputs, peer: source }, options, tensor);
  }

  barrier(options: CollectiveOptions = {}): Work<void> {
    return this.#start({ op: 'barrier', inputs: [], outputs: [] }, options, undefined);
  }

  subgroup(ranks: readonly number[], name?: string): ProcessGroup | null {
    checkSubgroup(this.#identity, ranks);
    const globalRanks = ranks.map((rank) => this.ranks[rank] ?? rank);
    const wanted = name ?? `${this.name}[${ranks.join(',')}]`;
    let offer = this.#offer(ranks, wanted);
    if (offer < 0) {
      // All ranks got this offer, so all of them release the groups that no code can reach, and try once more.
      this.#context.plane?.sweep();
      this.#meet();
      offer = this.#offer(ranks, wanted);
    }
    const rank = ranks.indexOf(this.rank);
    if (rank < 0) return null;
    const identity = this.#identityOf(wanted, globalRanks, rank);
    const plane = ranks.length > 1 ? this.#plane?.openSubgroup(identity, offer) : undefined;
    return new Group(this.#context, identity, plane);
  }

  nodeLevels(): NodeLevels | null {
    // An interrupt may have ended the making of the groups on some ranks, but then all ranks begin a new epoch.
    const epoch = this.#context.plane?.epoch ?? 1;
    if (this.#levels?.epoch !== epoch)
      this.#levels = { epoch, groups: makeNodeLevels(this, this.#context.nodes) };
    return this.#levels.groups;
  }

  /** Agrees with all ranks on the first rank's offer of a place for a subgroup; negative if there is no room. */
  #offer(ranks: readonly number[], wanted: string): number {
    const leader = this.rank === 0 && ranks.length > 1 ? this.#plane : undefined;
    const value = leader?.offerSubgroup(ranks.length) ?? 0;
    const parts = { op: 'subgroup', inputs: [], outputs: [], value } as const;
    const whole = { ...parts, signature: signatureOf(ranks) };
    const header = this.#header(whole, { detail: `making ${wanted}` }, 'float32', ranks.length);
    return this.#runner.runInternal({ header, inputs: [], outputs: [] }).values[0] ?? -1;
  }

  /** Waits for all ranks; no event reports this. */
  #meet(): void {
    const parts = { op: 'exchange', inputs: [], outputs: [] } as const;
    const header = this.#header(parts, { detail: 'making room for a group' }, 'float32', 0);
    this.#runner.runInternal({ header, inputs: [], outputs: [] });
  }

  destroy(): void {
    if (this.name === WORLD) {
      throw new ConfigError(
        `group ${this.name} has all ranks of the job and lives as long as the job, which job.shutdown() ends; name a group ` +
          'that newGroup or initDeviceMesh has made',
      );
    }
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    settleEnded(this.#context);
    this.#plane?.release();
  }

  alone(name: string): ProcessGroup {
    const identity = this.#identityOf(name, this.ranks.slice(this.rank, this.rank + 1), 0);
    return new Group(this.#context, identity, undefined);
  }

  ordinal(kind: string): number {
    return nextOrdinal(this.#context, `${this.name} ${kind}`);
  }

  get lastNumber(): number {
    return this.#number;
  }

  set lastNumber(number: number) {
    this.#number = number;
  }

  settleEnded(): void {
    settleEnded(this.#context);
  }

  repeat(event: CollectiveEvent, number: number): void {
    const { op, peer } = event;
    const isPair = op === 'send' || op === 'recv';
    const own = isPair && peer !== undefined ? this.#nextNumber(op, this.ranks.indexOf(peer)) : number;
    this.#context.observer.collective({ ...event, number: own });
  }

  /**
   * Returns a group's identity; its name has a number if an earlier group has the same name and ranks. All members use the same
   * number, because all ranks make groups in the same order.
   */
  #identityOf(title: string, ranks: readonly number[], rank: number): GroupIdentity {
    const { numGroups } = this.#context;
    const key = `${title} of ${ranks.join(',')}`;
    const count = (numGroups.get(key) ?? 0) + 1;
    numGroups.set(key, count);
    return { name: count === 1 ? title : `${title} #${count}`, ranks, rank, world: this.#identity.world };
  }

  /** Sends `value` to all ranks; returns every rank's value, in rank order. */
  #exchange(
    value: number,
    tensor: tf.Tensor,
    rest: readonly number[],
    options: CollectiveOptions,
  ): readonly number[] {
    const dtype = commonDType([wholePiece(tensor)]);
    const parts = { op: 'exchange', inputs: [], outputs: [], value, signature: signatureOf(rest) } as const;
    const header = this.#header(parts, { ...options, async: false }, dtype, tensor.size);
    return this.#runner.runInternal({ header, inputs: [], outputs: [] }).values;
  }

  /** Does the same as `#start`, but disposes `result` (a tensor made for this call) if the call is refused or fails. */
  #startInto(parts: CallParts, options: CollectiveOptions, result: tf.Tensor): Work<tf.Tensor> {
    try {
      return this.#start(parts, options, result, result);
    } catch (error) {
      result.dispose();
      throw error;
    }
  }

  #start<T>(parts: CallParts, options: CollectiveOptions, value: T, made?: tf.Tensor): Work<T> {
    const { engine } = this.#context;
    const dtype = commonDType([...parts.inputs, ...parts.outputs]);
    const inputs = parts.inputs.map((list) => resolvePieces(engine, list));
    const same = parts.inputs === parts.outputs;
    const outputs = same ? inputs : parts.outputs.map((list) => resolvePieces(engine, list));
    const header = this.#header(parts, options, dtype, countOf(parts.op, inputs, outputs));
    const call: Call = { header, inputs, outputs };
    return this.#runner.start(
      call,
      { held: header.async ? tensorsOf([...parts.inputs, ...parts.outputs]) : [], made },
      value,
    );
  }

  #header(parts: CallParts, options: CollectiveOptions, dtype: ValueDType, count: number): CallHeader {
    if (this.#isDestroyed) throw new ShardlabError('CLOSED', destroyed(this.#identity, parts.op));
    this.#requireOldMembers(parts.op);
    const { op, reduction, peer = -1, value = options.note ?? 0, signature = 0 } = parts;
    // The wire dtype is checked before the call gets a number, because a refused call must not use up a number.
    const wireDType = wireOf(this.#identity, op, dtype, options.wireDType);
    const epoch = this.#enterEpoch();
    return {
      op,
      group: this.name,
      number: this.#nextNumber(op, peer),
      epoch,
      async: options.async ?? false,
      dtype,
      wireDType,
      reduction,
      peer,
      count,
      value,
      signature,
      cause: options.cause ?? 'user',
      module: options.module ?? '',
      contents: contentsIn(options),
      detail: options.detail,
      site: this.#context.callSite(),
    };
  }

  /** Throws: CLOSED if a member was started again: its new process does not know the group. The group of all ranks continues. */
  #requireOldMembers(op: CallOp): void {
    const member = this.name === WORLD ? undefined : restartedMember(this.#context, this.ranks, this.#madeIn);
    if (member === undefined) return;
    throw new ShardlabError(
      'CLOSED',
      `${speaker(this.#identity)} ${op} in group ${this.name}, which ended with the process of rank ${member}; make the group again on all ranks`,
    );
  }

  /** Returns the current epoch. If the epoch is new, restarts call numbers at 1. */
  #enterEpoch(): number {
    const epoch = this.#context.plane?.epoch ?? 1;
    if (epoch !== this.#epoch) {
      this.#epoch = epoch;
      this.#number = 0;
      this.#pairNumbers.clear();
    }
    return epoch;
  }

  #nextNumber(op: CallOp, peer: number): number {
    if (op !== 'send' && op !== 'recv') return ++this.#number;
    const key = `${op} ${peer}`;
    const next = (this.#pairNumbers.get(key) ?? 0) + 1;
    this.#pairNumbers.set(key, next);
    return next;
  }

  #partsOf(tensor: tf.Tensor): PieceList[] {
    const length = tensor.size / this.size;
    return this.ranks.map((_, rank) => [{ tensor, offset: rank * length, length }]);
  }
}

function destroyed(identity: GroupIdentity, op: CallOp): string {
  return `${speaker(identity)} ${op} in group ${identity.name}, which dist.destroyProcessGroup has ended; make the group again`;
}

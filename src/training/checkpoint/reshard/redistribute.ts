import { type Bytes, ShardlabError } from '../../../core';
import type * as tf from '../../../core/tf';
import type { Engine } from '../../../engine';
import { floatsOf, type Parameter, type StateBuffer } from '../../../nn';
import type { Piece, PieceList, ProcessGroup } from '../../../wire';
import { wholeSizeOf } from '../state/parts';
import { buffersOf, heldRanges, type StatePlacement, sharePlacement } from '../state/placement';
import { commonRanges, overlapOf, type Range, totalLength, withoutRanges } from '../state/ranges';
import {
  type ElementStates,
  firstDifference,
  type StateAccess,
  type StateName,
  stateAccess,
  VALUES,
} from '../state/state-access';

/** The old or the new side of a redistribution: a model in one placement, with its optimizer's states. */
export interface PlacedState {
  /** The parameters in the model's order. Both sides have the same order. */
  readonly parameters: readonly Parameter[];
  readonly optimizer: ElementStates;
}

/** Arguments of a redistribution. A rank has the old side, the new side, or both. */
export interface RedistributeOptions {
  readonly engine: Engine;
  /** The ranks that have the old or the new side. */
  readonly group: ProcessGroup;
  readonly before: PlacedState | null;
  readonly after: PlacedState | null;
  /** Whether the optimizer has done a step. Before the first step, all states are zeros, so they are not moved. */
  readonly hasStates: boolean;
  /**
   * Frees an old buffer and its optimizer states. This function is called after all elements of the buffer were moved and
   * compared.
   */
  readonly release: (buffer: StateBuffer) => void;
  readonly progress?: (done: number, total: number) => void;
}

/** The result of a redistribution on one rank. */
export interface Redistributed {
  /** Number of parameters and optimizer states that are stored exactly; each counts once, even if several ranks hold it. */
  readonly numTensors: number;
  /**
   * Number of optimizer states that are stored as codes with one scale per block; if the borders of blocks change, these
   * states are encoded again.
   */
  readonly numCoded: number;
  /** Bytes of all parameters and states that were moved; each element counts once. */
  readonly bytes: Bytes;
  /** Bytes that this rank received from other ranks. */
  readonly receivedBytes: Bytes;
  /** Bytes of new elements on this rank that were compared with their old values. */
  readonly comparedBytes: Bytes;
}

const ITEM_BYTES = 4;
/** Maximum number of elements that all ranks together move in one round. */
const MOST_ELEMENTS = 2 ** 18;
const FEWEST_ELEMENTS = 4096;

/**
 * Moves parameters and optimizer states from one placement to another, parameter by parameter, in rounds of limited size. A
 * rank receives only elements that it lacks. Each old buffer is freed as soon as all its elements were moved. Before that,
 * every new element is sent back to its source and compared there bit by bit. Throws: CHECK, with the first element that
 * differs; errors of collectives.
 */
export function redistribute(options: RedistributeOptions): Redistributed {
  return new Redistribution(options).run();
}

interface Move extends Transfer {
  readonly window: Window;
}

class Redistribution {
  readonly #options: RedistributeOptions;
  readonly #parameters: readonly Parameter[];
  readonly #rounds: readonly Round[];
  readonly #transfers: readonly (readonly Transfer[])[];
  readonly #before: StateAccess;
  readonly #after: StateAccess;
  #receivedBytes = 0;
  #comparedBytes = 0;

  constructor(options: RedistributeOptions) {
    const { engine, group, before, after, hasStates } = options;
    this.#options = options;
    this.#parameters = (before ?? after)?.parameters ?? [];
    const share = (side: PlacedState | null): StatePlacement =>
      sharePlacement(options, side === null ? [] : heldRanges(side.parameters), this.#parameters.length);
    const [old, wanted] = [share(before), share(after)];
    this.#transfers = this.#parameters.map((_, place) => transfersOf(old, wanted, place));
    this.#checkComplete(wanted);
    const most = Math.max(FEWEST_ELEMENTS, Math.floor(MOST_ELEMENTS / group.size));
    const states = hasStates ? ((before ?? after)?.optimizer.stateNames ?? []) : [];
    const tensors = this.#parameters.map((parameter) => {
      const names = parameter.requiresGrad ? [VALUES, ...states] : [VALUES];
      return { size: wholeSizeOf(parameter), states: names };
    });
    this.#rounds = roundsOf(tensors, most);
    this.#before = stateAccess(engine, before);
    this.#after = stateAccess(engine, after);
  }

  /** Checks that at least one rank holds each element that the new side needs. Throws: INTERNAL. */
  #checkComplete(wanted: StatePlacement): void {
    this.#parameters.forEach(({ name }, place) => {
      const numHeld = totalLength(this.#transfers[place] ?? []);
      const needed = totalLength(wanted.flatMap((held) => held[place] ?? []));
      if (numHeld === needed) return;
      throw new ShardlabError(
        'INTERNAL',
        `the ranks hold only ${numHeld} of the ${needed} elements of ${name} that the new placement needs; nothing was moved yet`,
      );
    });
  }

  run(): Redistributed {
    const { before, after, progress } = this.#options;
    const endings = before === null ? new Map<number, StateBuffer[]>() : this.#endings(before.parameters);
    this.#rounds.forEach((round, i) => {
      this.#exchange(round);
      for (const buffer of endings.get(i) ?? []) this.#options.release(buffer);
      progress?.(i + 1, this.#rounds.length);
    });
    for (const buffer of after === null ? [] : buffersOf(after.parameters)) buffer.updated();
    const windows = this.#rounds.flat();
    const exact = windows.filter(({ state }) => this.#isExact(state));
    const numTensors = numOf(exact);
    return {
      numTensors,
      numCoded: numOf(windows) - numTensors,
      bytes: ITEM_BYTES * totalLength(exact),
      receivedBytes: this.#receivedBytes,
      comparedBytes: this.#comparedBytes,
    };
  }

  /** Returns, for each round, the old buffers that no later round needs. */
  #endings(parameters: readonly Parameter[]): Map<number, StateBuffer[]> {
    const indices = new Map(parameters.map((parameter, index) => [parameter, index]));
    const last = new Map<number, number>();
    this.#rounds.forEach((round, i) => {
      for (const { parameter } of round) last.set(parameter, i);
    });
    const endings = new Map<number, StateBuffer[]>();
    for (const buffer of buffersOf(parameters)) {
      const rounds = buffer.slices.map(({ parameter }) => last.get(indices.get(parameter) ?? -1) ?? 0);
      const end = Math.max(0, ...rounds);
      endings.set(end, [...(endings.get(end) ?? []), buffer]);
    }
    return endings;
  }

  #exchange(round: Round): void {
    const { rank } = this.#options.group;
    const moves = round.flatMap((window): Move[] =>
      within(this.#transfers[window.parameter] ?? [], window).map((transfer) => ({ ...transfer, window })),
    );
    for (const move of moves) if (move.from === rank && move.to === rank) this.#keep(move);
    const travelling = moves.filter(({ from, to }) => from !== to);
    if (travelling.length > 0) this.#send(travelling);
  }

  /** Copies elements that this rank has on both sides. */
  #keep({ window, start, length }: Move): void {
    const values = this.#before.read(window, { start, length });
    this.#after.write(window, { start, length }, values);
    if (!this.#isExact(window.state)) return;
    this.#compare(window, start, values, this.#after.read(window, { start, length }));
  }

  #send(moves: readonly Move[]): void {
    const { engine, group } = this.#options;
    const { sent, received } = engine.allOrNothing(() => ({
      sent: new Staging(engine, group, moves, 'from'),
      received: new Staging(engine, group, moves, 'to'),
    }));
    try {
      sent.fill((move) => this.#before.read(move.window, move));
      group.allToAllPieces(sent.lists, received.lists, { cause: 'control' }).wait();
      received.each((move, values) => this.#after.write(move.window, move, values));
      // Written values are read again and sent back, so that their source compares them. Encoded values are sent back as they
      // came.
      received.fill((move) =>
        this.#isExact(move.window.state) ? this.#after.read(move.window, move) : undefined,
      );
      group.allToAllPieces(received.lists, sent.lists, { cause: 'control' }).wait();
      sent.each((move, values) => {
        if (!this.#isExact(move.window.state)) return;
        this.#compare(move.window, move.start, this.#before.read(move.window, move), values);
      });
      this.#receivedBytes += received.bytes;
    } finally {
      sent.dispose();
      received.dispose();
    }
  }

  #isExact(state: string): boolean {
    const { before, after } = this.#options;
    return state === VALUES || (before ?? after)?.optimizer.isExact(state) !== false;
  }

  #compare(window: Window, start: number, before: Float32Array, after: Float32Array): void {
    const at = firstDifference(before, after);
    if (at === undefined) {
      this.#comparedBytes += before.byteLength;
      return;
    }
    const { rank, size } = this.#options.group;
    const name = this.#parameters[window.parameter]?.name ?? '';
    throw new ShardlabError(
      'CHECK',
      `[rank ${rank}/${size}] ${window.state} of ${name} changed at element ${start + at} during the move: ` +
        `${before[at]} became ${after[at]}; this is a defect of shardlab, please report it with the config`,
      { rank, details: { tensor: name, state: window.state, element: start + at } },
    );
  }
}

function numOf(windows: readonly Window[]): number {
  return new Set(windows.map(({ parameter, state }) => `${parameter} ${state}`)).size;
}

/** A tensor with all elements that this rank sends in a round, or with all elements that it receives. */
class Staging {
  readonly lists: readonly PieceList[];
  readonly #engine: Engine;
  readonly #tensor: tf.Tensor | null;
  readonly #moves: readonly { readonly move: Move; readonly offset: number }[];

  /**
   * If `end` is 'from', makes a tensor for the moves that begin at this rank; if it is 'to', for the moves that end at this
   * rank.
   */
  constructor(engine: Engine, group: ProcessGroup, all: readonly Move[], end: 'from' | 'to') {
    this.#engine = engine;
    const moves = all.filter((move) => move[end] === group.rank);
    const peerEnd = end === 'from' ? 'to' : 'from';
    const size = totalLength(moves);
    const tag = { cause: 'comm', module: '' } as const;
    const tensor = size === 0 ? null : engine.allocate([size], 'float32', tag);
    this.#tensor = tensor;
    const lists = Array.from({ length: group.size }, (): Piece[] => []);
    let offset = 0;
    this.#moves = moves.map((move) => {
      const placed = { move, offset };
      if (tensor !== null) lists[move[peerEnd]]?.push({ tensor, offset, length: move.length });
      offset += move.length;
      return placed;
    });
    this.lists = lists;
  }

  get bytes(): Bytes {
    return ITEM_BYTES * (this.#tensor?.size ?? 0);
  }

  /**
   * Fills the tensor with the values that `read` returns for each move. If `read` returns undefined, the elements do not
   * change.
   */
  fill(read: (move: Move) => Float32Array | undefined): void {
    for (const { move, offset } of this.#moves) {
      const values = read(move);
      if (values !== undefined) this.#floats(offset, move.length).set(values);
    }
  }

  each(use: (move: Move, values: Float32Array) => void): void {
    for (const { move, offset } of this.#moves) use(move, this.#floats(offset, move.length).slice());
  }

  dispose(): void {
    this.#tensor?.dispose();
  }

  #floats(offset: number, length: number): Float32Array {
    if (this.#tensor === null) return new Float32Array(0);
    return floatsOf(this.#engine, { tensor: this.#tensor, offset }, length);
  }
}

/** Elements of a parameter that move from rank `from` to rank `to`; if both ranks are equal, the elements stay on the rank. */
export interface Transfer extends Range {
  readonly from: number;
  readonly to: number;
}

/** Elements of one state of one parameter. */
export interface Window extends Range, StateName {}

/** The windows that the ranks exchange in one collective. */
export type Round = readonly Window[];

/**
 * Returns how the elements of one parameter move from an old placement to a new one. A rank uses the elements that it already
 * has. Each missing element comes from one rank; if several ranks have the element, they take turns. All ranks compute the same
 * result.
 */
export function transfersOf(before: StatePlacement, after: StatePlacement, parameter: number): Transfer[] {
  const holders = before.map((held) => held[parameter] ?? []);
  return after.flatMap((wanted, to) => {
    const parts = wanted[parameter] ?? [];
    const own = holders[to] ?? [];
    return [
      ...commonRanges(parts, own).map((range) => ({ ...range, from: to, to })),
      ...withoutRanges(parts, own).flatMap((range) => sourcesOf(range, holders, to)),
    ];
  });
}

/**
 * Chooses the ranks that send a range to rank `to`. The search begins at the rank after `to`, so that replicas share the work.
 */
function sourcesOf(range: Range, holders: readonly (readonly Range[])[], to: number): Transfer[] {
  const transfers: Transfer[] = [];
  let left = [range];
  for (let turn = 1; turn <= holders.length && left.length > 0; turn++) {
    const from = (to + turn) % holders.length;
    const held = holders[from] ?? [];
    transfers.push(...commonRanges(left, held).map((range) => ({ ...range, from, to })));
    left = withoutRanges(left, held);
  }
  return transfers;
}

/** Returns the parts of transfers that are in a window. */
export function within(transfers: readonly Transfer[], window: Range): Transfer[] {
  return transfers.flatMap((transfer) => {
    const common = overlapOf(transfer, window);
    return common === null ? [] : [{ ...transfer, ...common }];
  });
}

/** Divides all states of all parameters into rounds of at most `most` elements, parameter by parameter. */
export function roundsOf(
  parameters: readonly { readonly size: number; readonly states: readonly string[] }[],
  most: number,
): Round[] {
  const rounds: Window[][] = [];
  let room = 0;
  const tensors = parameters.flatMap(({ size, states }, parameter) =>
    states.map((state) => ({ parameter, state, size })),
  );
  for (const { parameter, state, size } of tensors) {
    for (let start = 0; start < size; ) {
      if (room === 0) {
        rounds.push([]);
        room = most;
      }
      const length = Math.min(size - start, room);
      rounds.at(-1)?.push({ parameter, state, start, length });
      start += length;
      room -= length;
    }
  }
  return rounds;
}

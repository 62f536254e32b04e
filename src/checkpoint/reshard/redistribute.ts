import type { Engine } from '../../backend/engine';
import { ShardlabError } from '../../core/errors';
import type * as tf from '../../core/tf';
import type { Bytes } from '../../core/units';
import type { Piece, PieceList, ProcessGroup } from '../../dist/types';
import type { Parameter, StateBuffer } from '../../nn/parameter';
import { floatsOf } from '../../nn/state-values';
import { buffersOf, heldRanges, type Placement, sharePlacement } from '../state/placement';
import type { Range } from '../state/ranges';
import { type ElementStates, firstDifference, type StateAccess, stateAccess } from '../state/state-access';
import { VALUES } from '../state/training-state';
import { type Round, roundsOf, type Transfer, transfersOf, type Window, within } from './transfers';

/** A model in one placement, with its optimizer's states. */
export interface PlacedState {
  /** In the model's order, which is the same on both sides. */
  readonly parameters: readonly Parameter[];
  readonly optimizer: ElementStates;
}

/** What a redistribution works with. A rank has the old side, the new one, or both. */
export interface RedistributeOptions {
  readonly engine: Engine;
  /** All ranks that have a side. */
  readonly group: ProcessGroup;
  readonly before: PlacedState | null;
  readonly after: PlacedState | null;
  /** Whether the optimizer has made a step: before it, its states are zeros and stay away. */
  readonly hasStates: boolean;
  /** Frees an old buffer with its optimizer states: all of it has been moved and compared. */
  readonly release: (buffer: StateBuffer) => void;
  readonly progress?: (done: number, total: number) => void;
}

/** What a rank did in a redistribution. */
export interface Redistributed {
  /** Parameters and states, each counted once, that are kept as they are. */
  readonly numTensors: number;
  /** States that an optimizer keeps in codes with a scale a block: where blocks lie elsewhere, they are coded anew. */
  readonly numCoded: number;
  /** Of all of them, each element once. */
  readonly bytes: Bytes;
  /** What this rank got from others. */
  readonly receivedBytes: Bytes;
  /** New elements on this rank that were compared with the old ones that they came from. */
  readonly comparedBytes: Bytes;
}

const ITEM_BYTES = 4;
/** Elements that all ranks together may have on their way. */
const MOST_ELEMENTS = 2 ** 18;
const FEWEST_ELEMENTS = 4096;

/**
 * Moves parameters and optimizer states from one placement to another, in bounded rounds, parameter by parameter. A rank
 * gets only what it lacks; each old buffer goes as soon as all of it has been moved. Every new element is sent back to
 * where it came from and compared there, bit by bit, before the old one goes.
 * Throws: CHECK naming the first element that differs; what collectives throw.
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
    const share = (side: PlacedState | null): Placement =>
      sharePlacement(
        engine,
        group,
        side === null ? [] : heldRanges(side.parameters),
        this.#parameters.length,
      );
    const [old, wanted] = [share(before), share(after)];
    this.#transfers = this.#parameters.map((_, place) => transfersOf(old, wanted, place));
    this.#checkComplete(wanted);
    const most = Math.max(FEWEST_ELEMENTS, Math.floor(MOST_ELEMENTS / group.size));
    const states = hasStates ? ((before ?? after)?.optimizer.stateNames ?? []) : [];
    const tensors = this.#parameters.map(({ size, requiresGrad }) => {
      return { size, states: requiresGrad ? [VALUES, ...states] : [VALUES] };
    });
    this.#rounds = roundsOf(tensors, most);
    this.#before = stateAccess(engine, before);
    this.#after = stateAccess(engine, after);
  }

  /** Throws: INTERNAL where a rank is to hold elements that nobody has. */
  #checkComplete(wanted: Placement): void {
    this.#parameters.forEach(({ name }, place) => {
      const found = lengthOf(this.#transfers[place] ?? []);
      const needed = lengthOf(wanted.flatMap((held) => held[place] ?? []));
      if (found === needed) return;
      throw new ShardlabError(
        'INTERNAL',
        `${found} of ${needed} elements of ${name} are held by some rank; nothing was moved yet`,
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
      bytes: ITEM_BYTES * lengthOf(exact),
      receivedBytes: this.#receivedBytes,
      comparedBytes: this.#comparedBytes,
    };
  }

  /** Buffers by the round after which nothing of them is needed. */
  #endings(parameters: readonly Parameter[]): Map<number, StateBuffer[]> {
    const places = new Map(parameters.map((parameter, place) => [parameter, place]));
    const last = new Map<number, number>();
    this.#rounds.forEach((round, i) => {
      for (const { parameter } of round) last.set(parameter, i);
    });
    const endings = new Map<number, StateBuffer[]>();
    for (const buffer of buffersOf(parameters)) {
      const rounds = buffer.slices.map(({ parameter }) => last.get(places.get(parameter) ?? -1) ?? 0);
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

  /** What this rank has on both sides. */
  #keep({ window, start, length }: Move): void {
    const values = this.#before.read(window, { start, length });
    this.#after.write(window, { start, length }, values);
    if (!this.#isExact(window.state)) return;
    this.#compare(window, start, values, this.#after.read(window, { start, length }));
  }

  #send(moves: readonly Move[]): void {
    const { engine, group } = this.#options;
    const { sent, received } = engine.allOrNothing(() => ({
      sent: new Staging(
        engine,
        group,
        moves.filter(({ from }) => from === group.rank),
        'to',
      ),
      received: new Staging(
        engine,
        group,
        moves.filter(({ to }) => to === group.rank),
        'from',
      ),
    }));
    try {
      sent.fill((move) => this.#before.read(move.window, move));
      group.allToAllPieces(sent.lists, received.lists, { cause: 'control' }).wait();
      received.each((move, values) => this.#after.write(move.window, move, values));
      // The way back: what was written is read anew, and compared where it came from. What is coded goes back as it came.
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
      `[rank ${rank}/${size}] ${window.state} of ${name} differ at element ${start + at} after they were moved: ` +
        `${before[at]} became ${after[at]}; this is a defect of shardlab, please report it with the config`,
      { rank, details: { tensor: name, state: window.state, element: start + at } },
    );
  }
}

function lengthOf(ranges: readonly Range[]): number {
  return ranges.reduce((sum, { length }) => sum + length, 0);
}

function numOf(windows: readonly Window[]): number {
  return new Set(windows.map(({ parameter, state }) => `${parameter} ${state}`)).size;
}

/** One tensor with all that this rank sends, or gets, in a round. */
class Staging {
  readonly lists: readonly PieceList[];
  readonly #engine: Engine;
  readonly #tensor: tf.Tensor | null;
  readonly #moves: readonly { readonly move: Move; readonly offset: number }[];

  constructor(engine: Engine, group: ProcessGroup, moves: readonly Move[], other: 'from' | 'to') {
    this.#engine = engine;
    const size = moves.reduce((sum, { length }) => sum + length, 0);
    const tag = { cause: 'comm', module: '' } as const;
    const tensor = size === 0 ? null : engine.allocate([size], 'float32', tag);
    this.#tensor = tensor;
    const lists = Array.from({ length: group.size }, (): Piece[] => []);
    let offset = 0;
    this.#moves = moves.map((move) => {
      const placed = { move, offset };
      if (tensor !== null) lists[move[other]]?.push({ tensor, offset, length: move.length });
      offset += move.length;
      return placed;
    });
    this.lists = lists;
  }

  get bytes(): Bytes {
    return ITEM_BYTES * (this.#tensor?.size ?? 0);
  }

  /** What is not read stays as it is. */
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

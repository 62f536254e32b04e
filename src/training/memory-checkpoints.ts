import { ShardlabError } from '../core';
import type { Tensor } from '../core/tf';
import type { Engine, HostArray } from '../engine';
import { type Module, readState, type StateBuffer, writePart } from '../nn';
import type { Optimizer } from '../sharding';
import type { ProcessGroup } from '../wire';
import { exchange } from './checkpoint/state/agreement';
import { buffersOf } from './checkpoint/state/placement';
import { VALUES } from './checkpoint/state/state-access';
import type { StepResult } from './step-result';
import type { TrainerState } from './trainer-state';

/*
 * [Note: in-memory checkpoints] Every n steps, each rank copies its parameters and optimizer states, and the counts of the training
 * (step, batches, rates, scaler), into the host's memory, and sends this copy to the next rank of the run, which stores it too. If
 * a process ends, its successor gets the copy from the next rank, and all other ranks go back to their own copies of the same
 * step. A copy counts when every rank has it, which a barrier ensures; until then each rank also stores the copy before. So a rank
 * may end at any moment. The copy has the results of the newest steps, because a rank may end before it has reported them. If two
 * neighbours end together, the copy of the first is lost. Under strategies with replicas, the replicas are copied as well.
 * Source: Wang et al., "Gemini: Fast failure recovery in distributed training with in-memory checkpoints", SOSP 2023.
 */

/** The module under which ledgers show the copies. */
export const MEMORY_CHECKPOINT = 'in-memory checkpoint';

/** Number of elements (1 MiB) that a rank sends at one time, so that a copy needs little memory of the device. */
const MOST_ELEMENTS = 2 ** 18;

/** Ranks run at most this number of steps that they have not reported ([Note: grants] in session/run/training.ts), and one more. */
const NUM_RESULTS = 3;

/** The trainer's parts that a copy contains, or that receive it. */
interface Copied {
  readonly model: Module;
  readonly optimizer: Optimizer;
  state(): TrainerState;
  restore(state: TrainerState): void;
  /** Drops pending gradients and whole parameters, which belong to the old values. */
  recover(): void;
}

/** A copy of the training after a step. */
interface Copy {
  readonly step: number;
  readonly state: TrainerState;
  /** The results of the newest steps on this rank. */
  readonly results: readonly StepResult[];
  /** This rank's values, in the order of `placesOf`. */
  readonly own: HostArray;
  /** The values of the rank before this one. */
  readonly ofPrevious: HostArray;
}

/** One state of one buffer. */
interface Place {
  readonly buffer: StateBuffer;
  /** VALUES, or a state of the optimizer. */
  readonly state: string;
}

/** One rank's copies of a run. [Note: in-memory checkpoints] */
export class MemoryCheckpoints {
  readonly #engine: Engine;
  readonly #every: number;
  /** Complete copies in the order in which they were made; the last one may lack parts on other ranks. */
  #copies: Copy[] = [];
  /** The arrays of a copy that is not complete. */
  #open: HostArray[] = [];
  #results: readonly StepResult[] = [];

  /** A copy is made every `every` steps. */
  constructor(engine: Engine, every: number) {
    this.#engine = engine;
    this.#every = every;
  }

  /** The steps of which this rank has a copy of its own values, and one of the previous rank's values. */
  get steps(): number[] {
    return this.#copies.map(({ step }) => step);
  }

  /** Copies the training if a copy is due after the step with this result. Throws: as `take`. */
  stepped(result: StepResult, trainer: Copied, group: ProcessGroup): void {
    this.#results = [...this.#results, result].slice(-NUM_RESULTS);
    // A run on one rank has no next rank.
    if (group.size > 1 && result.step % this.#every === 0) this.take(trainer, group);
  }

  /** Copies the training; all ranks of the group call it after the same step. Throws: OUT_OF_MEMORY, errors of collectives. */
  take(trainer: Copied, group: ProcessGroup): void {
    const state = trainer.state();
    const places = placesOf(trainer, state);
    const own = this.#allocate(sizeOf(places));
    this.#read(trainer, places, own);
    const sizes = exchange({ engine: this.#engine, group }, MEMORY_CHECKPOINT, own.length);
    const ofPrevious = this.#allocate(sizes[before(group)] ?? 0);
    this.#pass(group, own, ofPrevious);
    this.#copies.push({ step: state.steps, state, results: this.#results, own, ofPrevious });
    this.#open = [];
    group.barrier({ cause: 'control', module: MEMORY_CHECKPOINT }).wait();
    for (const copy of this.#copies.splice(0, this.#copies.length - 1)) dispose(copy);
  }

  /**
   * Gives a new trainer the copied state of a step; all ranks of the group call it. Then makes a new copy of this state, because
   * ranks that were started again have none. Returns the counts of the training, and the results of its newest steps if this rank has them.
   */
  restore(
    trainer: Copied,
    group: ProcessGroup,
    step: number,
  ): { readonly state: TrainerState; readonly results: readonly StepResult[] } {
    const copy = this.#copies.findLast((each) => each.step === step);
    const states = exchange({ engine: this.#engine, group }, MEMORY_CHECKPOINT, copy?.state ?? null);
    const state = states.find((each) => each !== null);
    if (state === undefined || state === null) throw lost(step);
    const places = placesOf(trainer, state);
    const values = copy?.own ?? this.#allocate(sizeOf(places));
    states.forEach((each, rank) => {
      if (each === null) this.#fetch(group, rank, values, copy?.ofPrevious);
    });
    if (values.length !== sizeOf(places)) throw lost(step);
    trainer.recover();
    this.#write(trainer, places, values);
    trainer.restore(state);
    if (copy === undefined) values.dispose();
    this.#open = [];
    this.#results = copy?.results ?? [];
    this.take(trainer, group);
    return { state, results: this.#results };
  }

  /** Frees what an interrupted copy has left. */
  recover(): void {
    for (const array of this.#open.splice(0)) array.dispose();
  }

  /** Frees all copies. */
  clear(): void {
    this.recover();
    for (const copy of this.#copies.splice(0)) dispose(copy);
    this.#results = [];
  }

  #allocate(length: number): HostArray {
    const array = this.#engine.host.allocate(length, { cause: 'comm', module: MEMORY_CHECKPOINT });
    this.#open.push(array);
    return array;
  }

  #read({ optimizer }: Copied, places: readonly Place[], array: HostArray): void {
    let at = 0;
    for (const { buffer, state } of places) {
      for (const [offset, length] of pieces(buffer.size)) {
        const values =
          state === VALUES
            ? readState(this.#engine, buffer, 'values', offset, length)
            : optimizer.readState(buffer, state, offset, length);
        array.view().set(values, at + offset);
      }
      at += buffer.size;
    }
  }

  #write({ optimizer }: Copied, places: readonly Place[], array: HostArray): void {
    let at = 0;
    for (const { buffer, state } of places) {
      // A copy, because the optimizer may allocate its states on the host, which makes the view invalid.
      const values = array.view().slice(at, at + buffer.size);
      if (state === VALUES) writePart(this.#engine, buffer, 0, values);
      else optimizer.writeState(buffer, state, 0, values);
      at += buffer.size;
    }
    for (const { buffer } of places) buffer.updated();
  }

  /** Sends `own` to the next rank, and receives `ofPrevious` from the previous one. Even ranks send first, so that no circle waits. */
  #pass(group: ProcessGroup, own: HostArray, ofPrevious: HostArray): void {
    const send = (): void => this.#send(group, own, after(group));
    const receive = (): void => this.#receive(group, ofPrevious, before(group));
    if (group.rank % 2 === 0) {
      send();
      receive();
    } else {
      receive();
      send();
    }
  }

  /** Moves the values of a rank that has no copy from the rank after it. */
  #fetch(group: ProcessGroup, rank: number, values: HostArray, ofPrevious: HostArray | undefined): void {
    const keeper = (rank + 1) % group.size;
    if (group.rank === rank) this.#receive(group, values, keeper);
    if (group.rank !== keeper) return;
    if (ofPrevious === undefined)
      throw new ShardlabError('INTERNAL', `there is no copy of rank ${rank}'s values`);
    this.#send(group, ofPrevious, rank);
  }

  #send(group: ProcessGroup, array: HostArray, to: number): void {
    this.#inPieces(array.length, (staging, offset, length) => {
      this.#engine.host.toDevice(array, offset, length, staging, 0);
      group.send(staging, to, { cause: 'control', module: MEMORY_CHECKPOINT }).wait();
    });
  }

  #receive(group: ProcessGroup, array: HostArray, from: number): void {
    this.#inPieces(array.length, (staging, offset, length) => {
      group.recv(staging, from, { cause: 'control', module: MEMORY_CHECKPOINT }).wait();
      this.#engine.host.fromDevice(staging, 0, length, array, offset);
    });
  }

  #inPieces(size: number, move: (staging: Tensor, offset: number, length: number) => void): void {
    for (const [offset, length] of pieces(size)) {
      const staging = this.#engine.allocate([length], 'float32', {
        cause: 'comm',
        module: MEMORY_CHECKPOINT,
      });
      try {
        move(staging, offset, length);
      } finally {
        staging.dispose();
      }
    }
  }
}

/** Returns the states to copy, in an order that is the same for every trainer of the config. */
function placesOf({ model, optimizer }: Copied, { optimizerSteps }: TrainerState): Place[] {
  return buffersOf([...model.namedState().values()]).flatMap((buffer) => {
    const isTrained = optimizerSteps > 0 && buffer.slices.some(({ parameter }) => parameter.requiresGrad);
    return [VALUES, ...(isTrained ? optimizer.stateNames : [])].map((state) => ({ buffer, state }));
  });
}

function sizeOf(places: readonly Place[]): number {
  return places.reduce((sum, { buffer }) => sum + buffer.size, 0);
}

/** Divides elements into pieces: offsets and lengths. */
function pieces(size: number): [number, number][] {
  const numPieces = Math.ceil(size / MOST_ELEMENTS);
  return Array.from({ length: numPieces }, (_, i) => {
    const offset = i * MOST_ELEMENTS;
    return [offset, Math.min(MOST_ELEMENTS, size - offset)];
  });
}

function after({ rank, size }: ProcessGroup): number {
  return (rank + 1) % size;
}

function before({ rank, size }: ProcessGroup): number {
  return (rank + size - 1) % size;
}

function dispose({ own, ofPrevious }: Copy): void {
  own.dispose();
  ofPrevious.dispose();
}

function lost(step: number): ShardlabError {
  return new ShardlabError('INTERNAL', `the ranks have no whole copy of step ${step} for this config`);
}

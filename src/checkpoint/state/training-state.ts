import type { Engine } from '../../backend/engine';
import type { ProcessGroup } from '../../dist/types';
import type { Module } from '../../nn/module';
import type { Optimizer } from '../../optim/optimizer';
import { exchange, type Ranks } from './agreement';
import { type StateAccess, stateAccess } from './state-access';

/** What a save or load reads or writes: a model and its optimizer on this rank, and the group with the other shards. */
export interface TrainingState {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  /** The ranks that hold the same parts of the model; default: all of `group`. */
  readonly replicas?: ProcessGroup | undefined;
  readonly model: Module;
  /** null if only parameters are saved or loaded. */
  readonly optimizer: Optimizer | null;
}

/**
 * Returns the steps that optimizers left out for the parameters of all ranks, which may hold different ones. All ranks call it;
 * `name` is the function that the user called.
 */
export function stepsLeftOutOf(ranks: Ranks, name: string, optimizer: Optimizer): Optimizer['stepsLeftOut'] {
  // The first rank with a parameter counts.
  return Object.assign({}, ...exchange(ranks, name, optimizer.stepsLeftOut).reverse());
}

/** Returns access to this rank's elements, with parameters and buffers in the model's order. */
export function accessOf({ engine, model, optimizer }: Omit<TrainingState, 'group'>): StateAccess {
  return stateAccess(engine, { parameters: [...model.namedState().values()], optimizer });
}

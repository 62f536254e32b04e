import type { Engine } from '../../backend/engine';
import type { ProcessGroup } from '../../dist/types';
import type { Module } from '../../nn/module';
import type { Optimizer } from '../../optim/optimizer';
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
  /** The steps that the optimizer left out for parameters of all ranks; default: of this rank's. */
  readonly stepsLeftOut?: Optimizer['stepsLeftOut'] | undefined;
}

/** Returns access to this rank's elements, with parameters and buffers in the model's order. */
export function accessOf({ engine, model, optimizer }: Omit<TrainingState, 'group'>): StateAccess {
  return stateAccess(engine, { parameters: [...model.namedState().values()], optimizer });
}

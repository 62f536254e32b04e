import type { Engine } from '../../backend/engine';
import type { ProcessGroup } from '../../dist/types';
import type { Module } from '../../nn/module';
import type { Optimizer } from '../../optim/optimizer';
import { type StateAccess, stateAccess } from './state-access';

/** The state of a save or load: a model and its optimizer on this rank, and the ranks with the other shards. */
export interface TrainingState {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly model: Module;
  /** null: parameters only. */
  readonly optimizer: Optimizer | null;
}

/** The name of a parameter's values among its states. */
export const VALUES = 'values';

/** Access to this rank's elements, with parameters in the model's order. */
export function accessOf({ engine, model, optimizer }: Omit<TrainingState, 'group'>): StateAccess {
  return stateAccess(engine, { parameters: model.parameters(), optimizer });
}

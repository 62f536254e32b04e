import type { Engine } from '../../../engine';
import { type Module, type Parameter, readState } from '../../../nn';
import type { Optimizer } from '../../../sharding';
import type { ProcessGroup } from '../../../wire';
import { exchange, type Ranks } from './agreement';
import { type StateAccess, stateAccess } from './state-access';

/** The state that a save reads and a load writes: a model and its optimizer on this rank, and the group with the other shards. */
export interface TrainingState {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  /** The ranks that hold the same parts of the model. Default: all ranks of `group`. */
  readonly replicas?: ProcessGroup | undefined;
  readonly model: Module;
  /** The optimizer; null if only parameters are saved or loaded. */
  readonly optimizer: Optimizer | null;
}

/** The optimizer states that a save writes in addition to the parameters. */
export interface SavedStates
  extends Pick<Optimizer, 'steps' | keyof StepCounts | 'lr' | 'paramGroups' | 'stateNames' | 'readState'> {}

/** The state that a save reads. In place of an optimizer, it may have other states of the parameters, such as gradients. */
export interface SavedTraining extends Omit<TrainingState, 'optimizer'> {
  readonly optimizer: SavedStates | null;
}

/** The name of the state in the result of `gradientStates`. */
export const GRADIENT = 'grad';

/** Returns the gradients of the last step, before clipping, as states that a save writes in place of the optimizer's. */
export function gradientStates(engine: Engine, optimizer: Optimizer): SavedStates {
  const { steps, stepsLeftOut, lr, paramGroups } = optimizer;
  return {
    ...{ steps, stepsLeftOut, updatedFrozen: [], leftOutNext: [], lr, paramGroups },
    stateNames: [GRADIENT],
    readState: (buffer, _, offset, length) => readState(engine, buffer, 'grad', offset, length),
  };
}

/** Which steps did not update a parameter, and will not, and the frozen parameters that were updated before. */
export type StepCounts = Pick<Optimizer, 'stepsLeftOut' | 'updatedFrozen' | 'leftOutNext'>;

/**
 * Returns the counts of all parameters. They come from all ranks, because ranks may hold different parameters. All ranks call this
 * function; `name` is the function that the user called.
 */
export function stepCountsOf(
  ranks: Ranks,
  name: string,
  { stepsLeftOut, updatedFrozen, leftOutNext }: StepCounts,
): StepCounts {
  const counts = exchange<StepCounts>(ranks, name, { stepsLeftOut, updatedFrozen, leftOutNext });
  return {
    // If several ranks have a parameter, the value of the first rank counts.
    stepsLeftOut: Object.assign({}, ...counts.map((each) => each.stepsLeftOut).reverse()),
    updatedFrozen: [...new Set(counts.flatMap((each) => each.updatedFrozen))],
    leftOutNext: [...new Set(counts.flatMap((each) => each.leftOutNext))],
  };
}

/** Returns the lists of names that a save stores; it omits empty lists. */
export function storedLists({ updatedFrozen, leftOutNext }: StepCounts): {
  readonly updatedFrozen?: string[];
  readonly leftOutNext?: string[];
} {
  return {
    ...(updatedFrozen.length > 0 && { updatedFrozen: [...updatedFrozen] }),
    ...(leftOutNext.length > 0 && { leftOutNext: [...leftOutNext] }),
  };
}

/** Whether an optimizer has states of a parameter: of a trainable one, and of a frozen one that it has updated before. */
export function hasStates({ name, requiresGrad }: Parameter, updatedFrozen: readonly string[]): boolean {
  return requiresGrad || updatedFrozen.includes(name);
}

/** Returns access to this rank's elements, with parameters and buffers in the model's order. */
export function accessOf({ engine, model, optimizer }: Omit<SavedTraining, 'group'>): StateAccess {
  return stateAccess(engine, { parameters: [...model.namedState().values()], optimizer });
}

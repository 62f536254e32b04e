import { ConfigError, type PointAction } from '../../core';
import type { Parameter, StateBuffer } from '../../nn';
import type { ProcessGroup } from '../../wire';
import type { ParamGroup } from './update-rule';

/** An object that has state buffers, such as a module. */
export interface HasStates {
  states(): StateBuffer[];
  /** The ranks that hold other parameters of the same model (the stages of a pipeline), if there are any. */
  readonly otherParts?: OtherParts | undefined;
}

/**
 * The ranks between which a model's parameters are divided; each parameter is whole on its rank. The squares of all gradients
 * are summed over these ranks for the norm.
 */
export interface OtherParts {
  readonly group: ProcessGroup;
  /** Parameters of this rank that another rank of the group also has and counts. */
  readonly countedElsewhere: readonly Parameter[];
}

/** Updates state buffers from their gradients. */
export interface Optimizer {
  /** The first group's learning rate of the next step. If this rate is set, all groups get it. Schedules set rates, too. */
  lr: number;
  /** The groups of parameters. The rate of each group may be set, as in torch with `optimizer.param_groups[0]['lr']`. */
  readonly paramGroups: readonly ParamGroup[];
  /** The number of steps so far. */
  readonly steps: number;
  /**
   * By parameter name, the number of steps in which the parameter was not updated: it had no gradient, or it was frozen. Only
   * parameters for which this number is not 0 have an entry; a frozen parameter that was never updated has none.
   */
  readonly stepsLeftOut: Readonly<Record<string, number>>;
  /** The names of parameters that are frozen now but were updated before; their states are kept, as in torch. */
  readonly updatedFrozen: readonly string[];
  /** The names of parameters that a delayed update leaves out in the next step, because they had no gradient in the last step. */
  readonly leftOutNext: readonly string[];
  /** The names of the states, as in torch ('exp_avg'); each state has one number per element of a buffer. */
  readonly stateNames: readonly string[];
  /**
   * Whether a state is stored exactly as it is written. If not, the state is encoded in blocks, and its values change when the
   * block borders change.
   */
  isExact(name: string): boolean;
  /**
   * Runs one update; all gradients are multiplied by `gradScale` (for clipping). Parameters without a gradient are skipped:
   * their own step counts, which AdamW's bias correction uses, do not change. `action` says how the update is done otherwise.
   * Source: torch.optim.
   */
  step(gradScale?: number, action?: PointAction): void;
  zeroGrad(): void;
  /** Returns a copy of a buffer's state; zeros before the first step. Throws: CONFIG for a name that `stateNames` lacks. */
  readState(buffer: StateBuffer, name: string, offset?: number, length?: number): Float32Array;
  /** Writes a buffer's state from `offset` on. Throws: CONFIG for a name that `stateNames` lacks. */
  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void;
  /**
   * Sets the number of steps so far, the number of steps in which each parameter was not updated, the frozen parameters that
   * were updated before, and the parameters that the next step leaves out. All other frozen parameters count their updates from 0.
   * Call it after the states were written.
   */
  restore(
    steps: number,
    leftOut?: Readonly<Record<string, number>>,
    updatedFrozen?: readonly string[],
    leftOutNext?: readonly string[],
  ): void;
  /** Frees the states of a buffer that is no longer updated. */
  release(buffer: StateBuffer): void;
  dispose(): void;
}

/** Returns the rates of all groups, for checkpoints; undefined if there is one group. */
export function groupRates({ paramGroups }: Pick<Optimizer, 'paramGroups'>): number[] | undefined {
  return paramGroups.length > 1 ? paramGroups.map(({ lr }) => lr) : undefined;
}

/** Throws: CONFIG if another number of groups was saved; torch's load_state_dict then raises ValueError. */
export function requireGroups(numGroups: number, numSaved: number): void {
  if (numGroups === numSaved) return;
  throw new ConfigError(
    `the saved optimizer has ${numSaved} parameter groups, but this optimizer has ${numGroups}; make the same ` +
      'groups, or load only the parameters',
  );
}

/** Sets saved rates. Throws: CONFIG if another number of groups was saved. */
export function setRates({ paramGroups }: Optimizer, lr: number, lrs: readonly number[] = [lr]): void {
  requireGroups(paramGroups.length, lrs.length);
  for (const [i, group] of paramGroups.entries()) group.lr = lrs[i] ?? lr;
}

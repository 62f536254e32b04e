import { ConfigError } from '../core/errors';
import type { ProcessGroup } from '../dist/types';
import type { Parameter, StateBuffer } from '../nn/parameter';
import type { ParamGroup } from './update-rule';

/** An object that has state buffers, such as a module. */
export interface HasStates {
  states(): StateBuffer[];
  /** The ranks that hold other parameters of the same model, if there are any: the stages of a pipeline. */
  readonly otherParts?: OtherParts | undefined;
}

/** The ranks over which a model's parameters are divided by name; the norm of all gradients is summed over them. */
export interface OtherParts {
  readonly group: ProcessGroup;
  /** Parameters of this rank that another rank of the group also has and counts. */
  readonly countedElsewhere: readonly Parameter[];
}

/** Updates state buffers from their gradients. */
export interface Optimizer {
  /** The first group's learning rate of the next step. Setting it sets the rates of all groups. Schedules set rates, too. */
  lr: number;
  /** The groups of parameters. Their rates may be set one by one, as torch's `optimizer.param_groups[0]['lr']`. */
  readonly paramGroups: readonly ParamGroup[];
  /** The number of steps so far. */
  readonly steps: number;
  /**
   * The number of steps in which a parameter had no gradient and was not updated, by its name; only parameters for which
   * this is not 0.
   */
  readonly stepsLeftOut: Readonly<Record<string, number>>;
  /** The names of the states, as in torch ('exp_avg'); each state has one number per element of a buffer. */
  readonly stateNames: readonly string[];
  /**
   * Whether a state is stored exactly as it is written; a state that is encoded in blocks changes when the block borders
   * change.
   */
  isExact(name: string): boolean;
  /**
   * Runs one update; all gradients are multiplied by `gradScale` (for clipping). Parameters without a gradient are skipped:
   * their own step counts, which AdamW's bias correction uses, do not change. Source: torch.optim.
   */
  step(gradScale?: number): void;
  zeroGrad(): void;
  /** Returns a copy of a buffer's state; zeros before the first step. Throws: CONFIG for a name that `stateNames` lacks. */
  readState(buffer: StateBuffer, name: string, offset?: number, length?: number): Float32Array;
  /** Writes a buffer's state from `offset` on. Throws: CONFIG for a name that `stateNames` lacks. */
  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void;
  /** Sets the number of steps so far, and the number of steps in which each parameter was not updated. */
  restore(steps: number, leftOut?: Readonly<Record<string, number>>): void;
  /** Frees the states of a buffer that is no longer updated. */
  release(buffer: StateBuffer): void;
  dispose(): void;
}

/** Returns the rates of all groups, for checkpoints; undefined if there is one group. */
export function groupRates({ paramGroups }: Pick<Optimizer, 'paramGroups'>): number[] | undefined {
  return paramGroups.length > 1 ? paramGroups.map(({ lr }) => lr) : undefined;
}

/** Throws: CONFIG if another number of groups was saved, as torch's load_state_dict raises ValueError. */
export function requireGroups(numGroups: number, numSaved: number): void {
  if (numGroups === numSaved) return;
  throw new ConfigError(
    `the optimizer was saved with another number of parameter groups (${numSaved}) than this one has (${numGroups}); make the same ` +
      'groups, or load only the parameters',
  );
}

/** Sets saved rates. Throws: CONFIG if another number of groups was saved. */
export function setRates({ paramGroups }: Optimizer, lr: number, lrs: readonly number[] = [lr]): void {
  requireGroups(paramGroups.length, lrs.length);
  for (const [i, group] of paramGroups.entries()) group.lr = lrs[i] ?? lr;
}

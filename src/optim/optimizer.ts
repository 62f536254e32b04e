import type { StateBuffer } from '../nn/parameter';

/** What has parameters: a module. */
export interface HasStates {
  states(): StateBuffer[];
}

/** Updates state buffers from their gradients. */
export interface Optimizer {
  /** The learning rate of the next step; schedules set it. */
  lr: number;
  /** Steps taken. */
  readonly steps: number;
  /** By parameter's name, in how many of them it had no gradient and was left as it is; others are not named. */
  readonly stepsLeftOut: Readonly<Record<string, number>>;
  /** Names of the states that it keeps, each a number an element of a buffer; torch's ('exp_avg'). */
  readonly stateNames: readonly string[];
  /** Whether a state is kept as it is written; one that is coded in blocks changes where blocks lie elsewhere. */
  isExact(name: string): boolean;
  /**
   * One update; `gradScale` is a factor on all gradients (clipping). Parameters without a gradient are left out: their own count
   * of steps, which AdamW's bias correction takes, stays. Source: torch.optim.
   */
  step(gradScale?: number): void;
  zeroGrad(): void;
  /** Copies elements of a buffer's state out, from `offset` on; zeros before its first step. Throws: CONFIG for a name that is not in `stateNames`. */
  readState(buffer: StateBuffer, name: string, offset?: number, length?: number): Float32Array;
  /** Writes elements of a buffer's state, from `offset` on. Throws: CONFIG for a name that is not in `stateNames`. */
  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void;
  /** Says that the states are those after so many steps, of which parameters were left out as `stepsLeftOut` says. */
  restore(steps: number, leftOut?: Readonly<Record<string, number>>): void;
  /** Frees the states of a buffer that is updated no more. */
  release(buffer: StateBuffer): void;
  dispose(): void;
}

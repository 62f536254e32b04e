import type { StateBuffer } from '../nn/parameter';

/** An object with parameters: a module. */
export interface HasStates {
  states(): StateBuffer[];
}

/** Updates state buffers from their gradients. */
export interface Optimizer {
  /** The learning rate of the next step; schedules set it. */
  lr: number;
  /** Steps taken. */
  readonly steps: number;
  /**
   * By parameter's name, the number of steps in which it had no gradient and did not change; other parameters are
   * absent.
   */
  readonly stepsLeftOut: Readonly<Record<string, number>>;
  /** Names of its states, torch's ('exp_avg'); each state has one number per element of a buffer. */
  readonly stateNames: readonly string[];
  /**
   * Whether a state is stored exactly as written; a state that is encoded in blocks changes when the blocks' borders
   * change.
   */
  isExact(name: string): boolean;
  /**
   * One update; `gradScale` is a factor on all gradients (clipping). Parameters without a gradient are skipped: their
   * own count of steps, which AdamW's bias correction uses, does not change. Source: torch.optim.
   */
  step(gradScale?: number): void;
  zeroGrad(): void;
  /** Copies elements of a buffer's state out, from `offset` on; zeros before its first step. Throws: CONFIG for a name that is not in `stateNames`. */
  readState(buffer: StateBuffer, name: string, offset?: number, length?: number): Float32Array;
  /** Writes elements of a buffer's state, from `offset` on. Throws: CONFIG for a name that is not in `stateNames`. */
  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void;
  /** Sets the number of steps that the states belong to, and the number of steps that each parameter skipped. */
  restore(steps: number, leftOut?: Readonly<Record<string, number>>): void;
  /** Frees the states of a buffer that is no longer updated. */
  release(buffer: StateBuffer): void;
  dispose(): void;
}

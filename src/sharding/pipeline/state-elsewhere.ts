import type { Parameter, StateBuffer } from '../../nn';

/** The state of a parameter that only other stages of a pipeline have: this rank holds no element of it. */
class StateElsewhere implements StateBuffer {
  readonly size = 0;
  readonly shardGroup = null;
  readonly isLocal = false;
  readonly slices = [];
  readonly name: string;
  readonly module: string;

  constructor({ name, module }: Parameter) {
    this.name = name;
    this.module = module;
  }

  segments(): [] {
    return [];
  }

  zeroGrad(): void {}

  updated(): void {}

  dispose(): void {}
}

/** Whether only other stages have the parameter. */
export function isElsewhere({ state }: Parameter): boolean {
  return state instanceof StateElsewhere;
}

/** Frees a parameter that only other stages have; checkpoints still know its name and shape. */
export function leaveElsewhere(parameter: Parameter): void {
  parameter.free();
  parameter.adopt(new StateElsewhere(parameter));
}

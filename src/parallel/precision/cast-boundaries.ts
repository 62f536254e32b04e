import type { Engine } from '../../backend/engine';
import type { Module } from '../../nn/module';
import { halfOf, type MixedPrecision } from './mixed-precision';
import { rounded } from './rounded';

/**
 * Rounds the inputs and outputs of a unit's module, and the gradients that flow back through them. Call it before the
 * module is made a unit: the casts belong to the unit's recording. [Note: mixed precision]
 */
export function castBoundaries(engine: Engine, module: Module, policy: MixedPrecision): void {
  const input = policy.castForwardInputs ? halfOf(policy.paramDtype) : null;
  const output = halfOf(policy.outputDtype);
  if (input === null && output === null) return;
  module.wrap((inputs, next) => {
    const y = next(...(input === null ? inputs : inputs.map((x) => rounded(engine, x, input))));
    return output === null ? y : rounded(engine, y, output);
  });
}

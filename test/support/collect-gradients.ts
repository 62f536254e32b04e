import type * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import type { Module } from '../../src/nn/module';
import { runAsUnit } from '../../src/sharding/run-as-unit';
import { valuesOf } from './close';
import { TallyObserver } from './tally-observer';

/**
 * Makes a module one unit whose gradients are collected. The returned function runs a loss and its backward and returns the
 * gradients by full name; null for parameters that the loss does not depend on.
 */
export function collectGradients(
  engine: Engine,
  module: Module,
): (loss: () => tf.Tensor) => Map<string, Float32Array | null> {
  const parameters = module.parameters();
  let collected = new Map<string, Float32Array | null>();
  runAsUnit({
    engine,
    observer: new TallyObserver(),
    module,
    parameters,
    hooks: {
      preForward() {},
      postForward() {},
      preBackward() {},
      postBackward(grads) {
        collected = new Map(parameters.map(({ name }, i) => [name, grads[i] ? valuesOf(grads[i]) : null]));
        for (const grad of grads) grad?.dispose();
      },
    },
  });
  return (loss) => {
    const pass = gradients(engine, loss);
    pass.backward();
    pass.loss.dispose();
    return collected;
  };
}

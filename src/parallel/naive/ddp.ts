import { accumulateGrad } from '../../autograd/leaves';
import type * as tf from '../../core/tf';
import { wholeTensor } from '../../nn/first-values';
import type { Module } from '../../nn/module';
import { zeroGradient } from '../missing-gradients';
import { type RankContext, runAsUnit } from '../run-as-unit';

/**
 * Data parallelism in its naive form, to be read from top to bottom: every rank holds the whole model, computes gradients from
 * a batch of its own, and all ranks average them. Gives the module back, to be called as before.
 *
 * The real one (ddp/distributed-data-parallel.ts) puts gradients together in buckets, so that there are fewer and larger
 * collectives, and reduces a bucket while backward continues; here nothing is sent before backward is over.
 */
export function naiveDDP<M extends Module>(module: M, { engine, observer, group }: RankContext): M {
  // 1. All ranks begin with the same values: rank 0's.
  const parameters = module.parameters();
  for (const parameter of parameters) {
    group.broadcast(wholeTensor(engine, parameter), 0, { cause: 'param', module: parameter.module }).wait();
  }

  // 2. Forward and backward find whole parameters. After backward every gradient becomes the mean over all ranks.
  const trained = parameters.filter(({ requiresGrad }) => requiresGrad);
  const average = (grads: readonly (tf.Tensor | null)[]): void => {
    trained.forEach((parameter, i) => {
      // Every rank has to come to every collective, also one whose loss does not depend on the parameter.
      const grad = grads[i] ?? zeroGradient(engine, parameter);
      group.allReduce(grad, 'avg', { cause: 'grad', module: parameter.module }).wait();
      // 3. The optimizer reads parameter.grad; gradients of several micro-batches are added up there.
      accumulateGrad(engine, parameter, grad);
    });
  };
  const hooks = { preForward() {}, postForward() {}, preBackward() {}, postBackward: average };
  runAsUnit({ engine, observer, module, parameters: trained, hooks });
  return module;
}

import type * as tf from '../../core/tf';
import { accumulateGrad } from '../../engine';
import { contentsOfOne, type Module, wholeTensor } from '../../nn';
import { noteZeros, zeroGradient } from '../missing-gradients';
import { type RankContext, runAsUnit } from '../run-as-unit';

/**
 * Makes a module data-parallel in the simplest way: each rank has the whole model and computes gradients from its own
 * batch; after backward, all ranks average the gradients. Returns the same module, which is called as before.
 *
 * The real DDP (ddp/distributed-data-parallel.ts) puts gradients into buckets, so that there are fewer and larger
 * collectives, and reduces a bucket while backward continues. Here, nothing is sent before backward has ended.
 */
export function naiveDDP<M extends Module>(module: M, { engine, observer, group }: RankContext): M {
  // 1. Rank 0 sends its values, so all ranks start with the same values.
  const parameters = module.parameters();
  for (const [i, parameter] of parameters.entries()) {
    const options = {
      cause: 'param',
      module: parameter.module,
      contents: contentsOfOne(parameters, i),
    } as const;
    group.broadcast(wholeTensor(engine, parameter), 0, options).wait();
  }

  // 2. Parameters are always whole. After backward, each gradient is replaced by its mean over all ranks.
  const trained = parameters.filter(({ requiresGrad }) => requiresGrad);
  const average = (grads: readonly (tf.Tensor | null)[]): void => {
    trained.forEach((parameter, i) => {
      if (!parameter.requiresGrad) {
        grads[i]?.dispose(); // the parameter was frozen later
        return;
      }
      noteZeros([parameter], [grads[i] ?? null], parameter.grad === null);
      // Every rank must take part in every collective, even if its loss does not depend on the parameter.
      const grad = grads[i] ?? zeroGradient(engine, parameter);
      const options = {
        cause: 'grad',
        module: parameter.module,
        contents: contentsOfOne(trained, i),
      } as const;
      group.allReduce(grad, 'avg', options).wait();
      // 3. The optimizer reads parameter.grad, which is the sum over all microbatches of the step.
      accumulateGrad(engine, parameter, grad);
    });
  };
  const hooks = { preForward() {}, postForward() {}, preBackward() {}, postBackward: average };
  const replicas = { parameters: trained, ranks: () => group.ranks };
  runAsUnit({ engine, observer, module, parameters: trained, hooks, replicas });
  return module;
}

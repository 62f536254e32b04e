import * as tf from '../../core/tf';
import { contentsOf, type Module } from '../../nn';
import { sharesOf } from '../fsdp/shard-layout';
import { noteZeros } from '../missing-gradients';
import { type RankContext, runAsUnit } from '../run-as-unit';
import { FlatShard } from './flat-shard';

/**
 * Shards a module fully in the simplest way. The module is one unit, each rank stores its own rows of each parameter
 * (shard-layout.ts), and whole parameters exist only during forward and backward. Returns the same module, which is called as
 * before.
 *
 * The real FSDP (fsdp/, see [Note: a step of FSDP]) has many units. It gathers the next unit while the current unit
 * computes, and reduces gradients while backward runs. Here, computation waits for every collective.
 */
export function naiveFullyShard<M extends Module>(module: M, context: RankContext): M {
  const { engine, group } = context;
  const { path } = module;
  const parameters = module.parameters().filter(({ requiresGrad }) => requiresGrad);
  const contents = contentsOf(path, parameters);

  // 1. Each rank stores its own rows and frees the rest. The optimizer updates this shard in place of the parameters.
  const shard = new FlatShard(path, parameters, context);
  const { layout, size, values } = shard;
  const reshard = (): void => {
    for (const parameter of parameters) parameter.free();
  };
  reshard();
  for (const parameter of parameters) parameter.adopt(shard);

  // 2. Before forward, and again before backward, the rows of all ranks are gathered into whole parameters.
  const unshard = (): void => {
    const wholes = parameters.map((parameter) => {
      const tag = { cause: 'param.full', module: parameter.module } as const;
      return tf.keep(engine.allocate(parameter.shape, 'float32', tag));
    });
    const own = [{ tensor: values, offset: 0, length: size }];
    group.allGatherPieces(own, sharesOf(layout, wholes), { cause: 'param', module: path, contents }).wait();
    for (const [i, parameter] of parameters.entries()) parameter.replace(wholes[i] ?? null);
  };

  // 3. After backward, each rank gets its own rows of the mean gradients. Means of several microbatches add up.
  const reduce = (grads: readonly (tf.Tensor | null)[]): void => {
    noteZeros(parameters, grads, shard.grad === null);
    const mean = tf.keep(engine.allocate([size], 'float32', { cause: 'grad.shard', module: path }));
    const own = [{ tensor: mean, offset: 0, length: size }];
    const options = { cause: 'grad', module: path, contents } as const;
    group.reduceScatterPieces(sharesOf(layout, grads), own, 'avg', options).wait();
    for (const grad of grads) grad?.dispose();
    if (shard.grad !== null) engine.addInto(mean, shard.grad);
    shard.zeroGrad();
    shard.grad = mean;
  };

  const postBackward = (grads: readonly (tf.Tensor | null)[]): void => {
    reshard();
    reduce(grads);
  };
  const hooks = { preForward: unshard, postForward: reshard, preBackward: unshard, postBackward };
  runAsUnit({ ...context, module, parameters, hooks });
  return module;
}

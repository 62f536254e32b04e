import { ConfigError, type Warn, warnOnce } from '../../core';
import { type EmbeddingOptions, type LinearOptions, type Module, withParameters } from '../../nn';
import {
  type ColumnOptions,
  ColumnParallelLinear,
  groupOfMesh,
  type ParallelPlan,
  type ParallelStyle,
  parallelizeModule,
  parallelizeTensors,
  type RowOptions,
  RowParallelLinear,
  type TensorOptions,
  VocabParallelEmbedding,
  type VocabularyOptions,
} from '../../sharding';
import * as names from '../../sharding/names/tensor-names';
import type { DeviceMesh } from '../../wire';
import { callableClass } from './callable-class';

/** The functions of tensor parallelism that are bound to a rank. */
export interface RankTensor extends Readonly<ReturnType<typeof rankTensor>> {}

/** Tensor parallelism on this rank; src/rank.ts describes the names. */
export function rankTensor(warn: Warn) {
  const once = warnOnce(warn);
  return {
    ...names,
    parallelizeModule<M extends Module>(module: M, mesh: DeviceMesh, plan: ParallelPlan | ParallelStyle): M {
      const group = groupOfMesh('parallelizeModule(module, mesh, plan)', mesh);
      if (Object.keys(plan ?? {}).length === 0)
        throw new ConfigError(
          "parallelizeModule(module, mesh, plan) takes a plan, as { 'blocks.*.fc1': ColwiseParallel(), 'blocks.*.fc2': " +
            'RowwiseParallel() }; for nn.gpt and nn.llama there is a ready one: parallelizeTensors(model, mesh)',
        );
      withParameters(module, 'parallelizeModule');
      return parallelizeModule(module, plan, { group, warn: once });
    },
    parallelizeTensors<M extends Module>(model: M, mesh: DeviceMesh, options?: TensorOptions): M {
      const group = groupOfMesh('parallelizeTensors(model, mesh)', mesh);
      return parallelizeTensors(model, { group, warn: once }, options);
    },
    ColumnParallelLinear: callableClass(
      (inputs: number, outputs: number, options?: ColumnOptions & LinearOptions) =>
        new ColumnParallelLinear(inputs, outputs, options, once),
    ),
    RowParallelLinear: callableClass(
      (inputs: number, outputs: number, options?: RowOptions & LinearOptions) =>
        new RowParallelLinear(inputs, outputs, options, once),
    ),
    VocabParallelEmbedding: callableClass(
      (rows: number, dim: number, options?: VocabularyOptions & EmbeddingOptions) =>
        new VocabParallelEmbedding(rows, dim, options, once),
    ),
  };
}

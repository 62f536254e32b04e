import { ConfigError } from '../../core/errors';
import { type Warn, warnOnce } from '../../core/warn';
import type { DeviceMesh } from '../../wire/dist/device-mesh';
import type { EmbeddingOptions } from '../../nn/embedding';
import type { LinearOptions } from '../../nn/linear';
import type { Module } from '../../nn/module';
import { withParameters } from '../../nn/require-parameters';
import { type ColumnOptions, ColumnParallelLinear } from '../../sharding/tensor/column-parallel-linear';
import { groupOfMesh, type ParallelPlan, parallelizeModule } from '../../sharding/tensor/parallelize-module';
import { parallelizeTensors, type TensorOptions } from '../../sharding/tensor/parallelize-tensors';
import { type RowOptions, RowParallelLinear } from '../../sharding/tensor/row-parallel-linear';
import type { ParallelStyle } from '../../sharding/tensor/styles';
import {
  VocabParallelEmbedding,
  type VocabularyOptions,
} from '../../sharding/tensor/vocab-parallel-embedding';
import { callableClass } from './callable-class';
import * as names from '../../sharding/names/tensor-names';

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

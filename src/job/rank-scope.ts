import * as tf from '@tensorflow/tfjs';
import { gradients, type Pass } from '../autograd/unit';
import type { Engine } from '../backend/engine';
import type { Observer } from '../core/events';
import { type DeviceMesh, initDeviceMesh } from '../dist/device-mesh';
import { createDist, type Dist } from '../dist/facade';
import type { ProcessGroup } from '../dist/types';
import type { World } from '../dist/world';
import type { Module } from '../nn/module';
import { AdamW, type AdamWOptions } from '../optim/adamw';
import { clipGradNorm, type GradNorm } from '../optim/clip-grad-norm';
import type { HasStates } from '../optim/optimizer';
import { type DdpOptions, DDP as DistributedDataParallel } from '../parallel/ddp/distributed-data-parallel';
import { type FullyShardOptions, fullyShard } from '../parallel/fsdp/fully-shard';
import { transformerAutoWrapPolicy } from '../parallel/wrap-policies';
import * as nn from './nn-names';

/** Where a module is sharded or replicated. */
export interface MeshOption {
  /** A mesh of one axis; default all ranks. */
  readonly mesh?: DeviceMesh | undefined;
}

/** Optimizers and what belongs to them, on this rank's engine. */
export interface RankOptim {
  readonly AdamW: typeof AdamW;
  adamW(model: HasStates, options?: AdamWOptions): AdamW;
  /** torch's spelling of the same. */
  adamw(model: HasStates, options?: AdamWOptions): AdamW;
  clipGradNorm(model: HasStates, maxNorm: number | null): GradNorm;
}

/** What code in a rank finds in its scope. */
export interface RankScope {
  /** This process's place among all ranks, from 0. */
  readonly rank: number;
  readonly worldSize: number;
  /** All ranks. */
  readonly group: ProcessGroup;
  /** All ranks as a mesh of one axis, 'dp'. */
  readonly mesh: DeviceMesh;
  /** Collectives as torch.distributed has them. */
  readonly dist: Dist;
  readonly initDeviceMesh: (shape: readonly number[], axisNames: readonly string[]) => DeviceMesh;
  readonly tf: typeof tf;
  readonly nn: typeof nn;
  readonly optim: RankOptim;
  readonly engine: Engine;
  readonly fullyShard: <M extends Module>(module: M, options?: FullyShardOptions & MeshOption) => M;
  readonly DDP: (module: Module, options?: DdpOptions & MeshOption) => DistributedDataParallel;
  readonly transformerAutoWrapPolicy: typeof transformerAutoWrapPolicy;
  /**
   * Runs a model to its loss with a recording; `.backward()` then leaves the gradients in the parameters or their shards,
   * for `optim` to use. Throws: SHAPE when the loss is not a float32 scalar.
   */
  readonly gradients: (loss: () => tf.Tensor) => Pass;
}

/** What a rank's scope is made of. */
export interface RankParts {
  readonly rank: number;
  readonly world: World;
  readonly engine: Engine;
  readonly observer: Observer;
}

/** Binds the library to this rank's engine, group and observer. */
export function createRankScope({ rank, world, engine, observer }: RankParts): RankScope {
  const { group } = world;
  const mesh = initDeviceMesh(group, [group.size], ['dp']);
  const contextOf = ({ mesh: chosen = mesh }: MeshOption) => ({ engine, observer, group: chosen.group });
  const adamW = (model: HasStates, options?: AdamWOptions): AdamW => new AdamW(engine, model, options);
  return {
    rank,
    worldSize: group.size,
    group,
    mesh,
    dist: createDist(world, engine),
    initDeviceMesh: (shape, axisNames) => initDeviceMesh(group, shape, axisNames),
    tf,
    nn,
    optim: {
      AdamW,
      adamW,
      adamw: adamW,
      clipGradNorm: (model, maxNorm) => clipGradNorm(engine, model, maxNorm),
    },
    engine,
    fullyShard: (module, options = {}) => fullyShard(module, contextOf(options), options),
    // A function whose result is an object can be called with and without `new`.
    DDP: function DDP(module, options = {}) {
      return new DistributedDataParallel(module, contextOf(options), options);
    },
    transformerAutoWrapPolicy,
    gradients: (loss) => gradients(engine, loss),
  };
}

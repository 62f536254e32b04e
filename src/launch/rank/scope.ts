import { anything, requireOptions } from '../../config';
import { ConfigError, classOf, type Observer, type Warn } from '../../core';
import * as tf from '../../core/tf';
import {
  currentDraws,
  EagerTape,
  type Engine,
  gradients,
  type Pass,
  recordEagerly,
  type TrainedParts,
} from '../../engine';
import type { Table } from '../../figures';
import type { Layer, Module } from '../../nn';
import * as nn from '../../nn/names/nn-names';
import * as contextNames from '../../sharding/names/context-names';
import {
  createDist,
  type DeviceMesh,
  initDeviceMesh,
  initializeModelParallel,
  type Link,
  type ModelParallelSizes,
  markWorld,
  type World,
} from '../../wire';
import { VALUE_CODEC } from '../control/sent-values';
import type { BatchNormWarning } from './batch-norm-warning';
import { callableClass } from './callable-class';
import { type CellSteps, scalarValueOf } from './cell-steps';
import { type RankCheckpoints, rankCheckpoints } from './checkpoints';
import { compareReplicas, type ReplicaReport } from './compare-replicas';
import type { DataLoader, LoaderData, LoaderOptions } from './data-loader';
import { describeModel } from './describe-model';
import { type GroupOption, type RankFsdp, rankFsdp } from './fsdp';
import { type RankOptim, type RankSchedules, rankOptim, rankSchedules } from './optim';
import { ParameterWarnings } from './parameter-warnings';
import { type RankPipeline, rankPipeline } from './pipeline';
import type { DataFolders } from './prepare-in-folder';
import { rankReshard } from './reshard';
import { type RankTensor, rankTensor } from './tensor';

/** The parts that a rank's scope needs. */
export interface RankParts {
  readonly rank: number;
  readonly world: World;
  readonly engine: Engine;
  readonly observer: Observer;
  /** Receives warnings about settings without effect. */
  readonly warn: Warn;
  readonly batchNorms: BatchNormWarning;
  /** Records the steps of cells. */
  readonly steps: CellSteps;
  /** The wire between ranks, if it is shaped. */
  readonly link?: Link | undefined;
  /** Returns the cell and line of the running code, for messages. */
  readonly place?: (() => string) | undefined;
  /** The folders in which data are read and prepared; a dry run reads no data. */
  readonly files?: DataFolders | undefined;
}

/** The names in the scope of a rank's code. src/rank.ts exports the same names. */
export interface RankScope
  extends RankBasics,
    RankContext,
    RankFsdp,
    RankTensor,
    RankPipeline,
    RankSchedules,
    RankCheckpoints,
    Readonly<ReturnType<typeof rankReshard>>,
    RankData {}

type RankContext = Readonly<typeof contextNames>;

/** Binds the library to this rank's engine, group and observer. */
export function createRankScope(parts: RankParts): RankScope {
  const { world, engine, warn } = parts;
  const { group } = world;
  currentDraws().rank = group.rank;
  markWorld(group);
  const mesh = initDeviceMesh(group, [group.size], ['dp']);
  const warnings = new ParameterWarnings(group, warn);
  return {
    ...rankBasics(parts, mesh, warnings),
    ...contextNames,
    ...rankFsdp(parts, mesh),
    ...rankTensor(warn),
    ...rankPipeline({ ...parts, group, trained: (reached) => warnings.check(reached) }),
    ...rankSchedules(engine, group, parts.steps),
    ...rankCheckpoints(engine, group, warn),
    ...rankReshard(engine, group),
    ...rankData(parts),
  };
}

type RankData = Readonly<ReturnType<typeof rankData>>;

/** Returns the function that reads files and arrays. Its code is loaded on first use. */
function rankData({ engine, world: { group }, files }: RankParts) {
  return {
    /** src/rank.ts describes `dataLoader`. */
    async dataLoader(data: LoaderData, options?: LoaderOptions): Promise<DataLoader> {
      const { openLoader } = await import('./data-loader.js');
      return openLoader({ engine, group, files }, data, options);
    },
  };
}

type RankBasics = Readonly<ReturnType<typeof rankBasics>>;

function rankBasics(
  { rank, world, engine, warn, steps, link, place }: RankParts,
  mesh: DeviceMesh,
  warnings: ParameterWarnings,
) {
  const { group } = world;
  const trained = (parts: TrainedParts): void => warnings.check(parts);
  const eager = new EagerTape(engine, {
    begins: () => steps.begins(),
    forward: (work) => steps.forward(work),
    backward: (loss, work) => steps.backward(loss, work),
    trained,
    warn,
    ...(place && { place }),
  });
  recordEagerly(eager);
  const readsData = (input: tf.Tensor): void => eager.readAsData(input);
  const begins = (loss: tf.Tensor): void => eager.readAsLoss(loss);
  const optim: RankOptim = rankOptim({ engine, warn, steps }, (model) => warnings.takes(model));
  return {
    /** This process's rank index, from 0. */
    rank,
    worldSize: group.size,
    /** The group of all ranks. */
    group,
    /** All ranks as a mesh of one axis, 'dp'. */
    mesh,
    /** Collectives, as in torch.distributed. */
    dist: {
      ...createDist(world, engine, warn, VALUE_CODEC),
      /**
       * Compares the values of all parameters that several ranks hold, and names those that differ. Every rank of the group (default:
       * all ranks) calls it. Throws: CONFIG, COLLECTIVE_MISSING.
       */
      compareReplicas: (model: Module | Layer, options: GroupOption = {}): ReplicaReport => {
        const { group: ranks = group } = requireOptions('dist.compareReplicas', options, { group: anything });
        return compareReplicas(engine, model, ranks);
      },
    },
    initDeviceMesh: (shape: readonly number[], axisNames: readonly string[]): DeviceMesh =>
      initDeviceMesh(group, shape, axisNames),
    initializeModelParallel: (sizes?: ModelParallelSizes) => initializeModelParallel(group, sizes),
    tf,
    nn,
    optim,
    engine,
    /** Returns a table of a sharded model's units; with a link (default: the job's), also the times of their all-gathers. */
    describe: (...[model, options = {}]: Parameters<typeof describeModel>): Table =>
      describeModel(model, { link, ...options }),
    /** Chooses one of several experts per row. */
    TemperatureGating: callableClass(
      (...args: ConstructorParameters<typeof nn.TemperatureGating>) => new nn.TemperatureGating(...args),
    ),
    /**
     * Runs a model to its loss and records the operations; `.backward()` then writes the gradients into the parameters or
     * their shards, where `optim` reads them. A parameter without a wrapper gets this rank's gradient in its `grad`. Throws:
     * SHAPE when the loss is not a float32 scalar; CONFIG in backward, when the loss depends on no trainable parameter.
     */
    gradients(loss: () => tf.Tensor): Pass {
      return steps.pass(() => gradients(engine, loss, { trained, readsData, begins }));
    },
    /**
     * Sets the loss of the current step, or of the step that has just ended. job.loss() draws the mean over all ranks that
     * report a loss. Default: the mean of the losses of the step's passes. The call communicates nothing.
     * Throws: CONFIG for a value that is neither a number nor a tensor of one element.
     */
    report(loss: tf.Tensor | number): void {
      const value = scalarValueOf(loss);
      if (value === undefined) {
        const description = loss instanceof tf.Tensor ? `a tensor [${loss.shape}]` : classOf(loss);
        throw new ConfigError(`report takes a number or a tensor of one element, not ${description}`);
      }
      steps.report(value);
    },
  };
}

import { gradients, type Pass } from '../../autograd/unit';
import type { Engine } from '../../backend/engine';
import type { Observer } from '../../core/events';
import * as tf from '../../core/tf';
import type { Warn } from '../../core/warn';
import { type DeviceMesh, initDeviceMesh } from '../../dist/device-mesh';
import { createDist, type Dist } from '../../dist/facade';
import type { ProcessGroup } from '../../dist/types';
import type { World } from '../../dist/world';
import type { Link } from '../../transport/link';
import { type CallableClass, callableClass } from './callable-class';
import { type RankCheckpoints, rankCheckpoints } from './checkpoints';
import { describeModel } from './describe-model';
import { namesForgottenRoots } from './forgotten-root';
import { FSDP_NAMES, type RankFsdp, rankFsdp } from './fsdp';
import * as nn from './nn-names';
import { type RankOptim, type RankSchedules, rankOptim, rankSchedules } from './optim';
import { Untrained } from './untrained';

type Names = typeof FSDP_NAMES;

/** The names in the scope of a rank's code. */
export interface RankScope extends RankFsdp, RankSchedules, RankCheckpoints, Names {
  /** This process's rank index, from 0. */
  readonly rank: number;
  readonly worldSize: number;
  /** All ranks. */
  readonly group: ProcessGroup;
  /** All ranks as a mesh of one axis, 'dp'. */
  readonly mesh: DeviceMesh;
  /** Collectives, as in torch.distributed. */
  readonly dist: Dist;
  readonly initDeviceMesh: (shape: readonly number[], axisNames: readonly string[]) => DeviceMesh;
  readonly tf: typeof tf;
  readonly nn: typeof nn;
  readonly optim: RankOptim;
  readonly engine: Engine;
  /**
   * The units of a sharded model as a table; on the job's link, or on another link, also the times of their gathers.
   */
  readonly describe: typeof describeModel;
  /** Chooses one of several experts per row. */
  readonly TemperatureGating: CallableClass<
    ConstructorParameters<typeof nn.TemperatureGating>,
    nn.TemperatureGating
  >;
  /**
   * Runs a model to its loss and records the operations; `.backward()` then writes the gradients into the parameters or
   * their shards, for `optim` to use. A parameter without a wrapper gets this rank's gradient in its `grad`. Throws:
   * SHAPE when the loss is not a float32 scalar; CONFIG in backward, when the loss depends on no trainable parameter.
   */
  readonly gradients: (loss: () => tf.Tensor) => Pass;
}

/** The parts that a rank's scope needs. */
export interface RankParts {
  readonly rank: number;
  readonly world: World;
  readonly engine: Engine;
  readonly observer: Observer;
  /** Takes warnings about settings without effect. */
  readonly warn: Warn;
  /** Called before a recording begins. */
  readonly stepBegins?: (() => void) | undefined;
  /** The wire between ranks, if it is shaped. */
  readonly link?: Link | undefined;
}

/** Binds the library to this rank's engine, group and observer. */
export function createRankScope({
  rank,
  world,
  engine,
  observer,
  warn,
  stepBegins,
  link,
}: RankParts): RankScope {
  const { group } = world;
  const mesh = initDeviceMesh(group, [group.size], ['dp']);
  const forgottenRoots = namesForgottenRoots(group, warn);
  const untrained = new Untrained(warn);
  return {
    rank,
    worldSize: group.size,
    group,
    mesh,
    dist: createDist(world, engine),
    initDeviceMesh: (shape, axisNames) => initDeviceMesh(group, shape, axisNames),
    tf,
    nn,
    optim: rankOptim(engine, warn, (model) => untrained.takes(model)),
    engine,
    ...FSDP_NAMES,
    ...rankFsdp({ engine, observer, mesh, warn }),
    ...rankSchedules(engine, group),
    ...rankCheckpoints({ engine, group, warn }),
    describe: (model, options = {}) => describeModel(model, { link, ...options }),
    TemperatureGating: callableClass((...args) => new nn.TemperatureGating(...args)),
    gradients(loss) {
      stepBegins?.();
      return gradients(engine, loss, (parts) => {
        forgottenRoots(parts);
        untrained.names(parts.loose);
      });
    },
  };
}

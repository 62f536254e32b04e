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

/** What code in a rank finds in its scope. */
export interface RankScope extends RankFsdp, RankSchedules, RankCheckpoints, Names {
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
  /** The units of a sharded model as a table; on the job's link, or on another one, also what their gathers take. */
  readonly describe: typeof describeModel;
  /** Chooses one of several experts for each row. */
  readonly TemperatureGating: CallableClass<
    ConstructorParameters<typeof nn.TemperatureGating>,
    nn.TemperatureGating
  >;
  /**
   * Runs a model to its loss with a recording; `.backward()` then leaves the gradients in the parameters or their shards,
   * for `optim` to use; those of a parameter under no wrapper in its `grad`, this rank's own. Throws: SHAPE when the loss is
   * not a float32 scalar; CONFIG in backward, when it depends on nothing that trains.
   */
  readonly gradients: (loss: () => tf.Tensor) => Pass;
}

/** What a rank's scope is made of. */
export interface RankParts {
  readonly rank: number;
  readonly world: World;
  readonly engine: Engine;
  readonly observer: Observer;
  /** Takes what is accepted and has no effect. */
  readonly warn: Warn;
  /** Called where a recording is about to begin. */
  readonly stepBegins?: (() => void) | undefined;
  /** The wire between ranks, where it is shaped. */
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

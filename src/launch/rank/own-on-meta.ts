import { ConfigError } from '../../core';
import type { MetaOwn } from '../../planner';
import type { PreparedData } from '../../training';
import type { World } from '../../wire';
import { BatchNormWarning } from './batch-norm-warning';
import { CellSteps } from './cell-steps';
import { callModel, dataScopeOf, type OwnFunctions, ownParts, takeModel } from './own-parts';
import { createRankScope } from './scope';

/** Runs the user's functions in this process, as a rank of a dry run. `functions` is null if only ranks can load them. */
export function ownOnMeta(functions: OwnFunctions | null, data?: PreparedData): MetaOwn {
  return {
    data,
    parts({ rank, engine, group, recorder }, config) {
      if (functions === null) {
        throw new ConfigError(
          'a dry run or a plan: model or loss names a file, which only ranks load; give a function, as model: ({ nn }) => new Net()',
        );
      }
      const world: World = {
        rank,
        size: group.size,
        group,
        plane: 'none',
        beginWork: () => undefined,
        sweep: () => undefined,
        forget: () => undefined,
        close: () => Promise.resolve(),
      };
      const warn = (): void => undefined;
      const steps = new CellSteps({ engine, recorder, warn });
      const batchNorms = new BatchNormWarning(warn);
      const scope = createRankScope({ rank, world, engine, observer: recorder, warn, batchNorms, steps });
      const { model } = functions;
      const batches = dataScopeOf(scope, config);
      if (model === null) return ownParts(functions, null, scope, batches);
      const made = callModel(model, scope);
      if (!(made instanceof Promise))
        return ownParts(functions, takeModel(made, config.seed), scope, batches);
      made.catch(() => undefined);
      throw new ConfigError(
        'a dry run or a plan cannot wait for an async model; give a function that is not async',
      );
    },
  };
}

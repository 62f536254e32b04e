import { fields, requireKind } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import type { Engine } from '../../engine';
import { type Module, requireModule } from '../../nn';
import { abandonUnits, groupRates, type Optimizer, setRates } from '../../sharding';
import {
  exchange,
  type PlacedState,
  type Redistributed,
  redistribute,
  type StepCounts,
  stepCountsOf,
  type Trainer,
  type TrainerState,
  wholeShapeOf,
} from '../../training';
import type { ProcessGroup } from '../../wire';

interface ReshardOnRank {
  readonly engine: Engine;
  /** All ranks that have the run before or after the change. */
  readonly group: ProcessGroup;
  readonly before: Trainer | undefined;
  readonly after: Trainer | undefined;
  readonly progress: (done: number, total: number) => void;
}

/** A model of a cell, in a DDP or in units, and its optimizer. */
export interface ModelAndOptimizer {
  readonly model: Module;
  readonly optimizer: Optimizer;
}

/** A rank reports its progress after each further twentieth of the work. */
const TELL_EVERY = 0.05;

/**
 * Moves a run from one trainer to another. Until all ranks have built the new trainer, the old trainer does not change. The
 * first call of `progress` means that the change begins.
 */
export function reshardOnRank({ engine, group, before, after, progress }: ReshardOnRank): Redistributed {
  group.barrier({ cause: 'control' }).wait();
  progress(0, 1);
  // Pending gradients and whole parameters are dropped; the next step makes new ones.
  before?.recover();
  const state = stateOf(exchange({ engine, group }, 'run.reshard()', before?.state() ?? null));
  const moved = redistribute({
    engine,
    group,
    before: before === undefined ? null : placed(before),
    after: after === undefined ? null : placed(after),
    hasStates: state.optimizerSteps > 0,
    release: (buffer) => {
      before?.optimizer.release(buffer);
      buffer.dispose();
    },
    progress: seldom(progress),
  });
  after?.restore(state);
  return moved;
}

/** Returns the function that moves the states of a cell's training. */
export function rankReshard(engine: Engine, group: ProcessGroup) {
  return {
    /** src/rank.ts describes `moveState`. */
    moveState(before: ModelAndOptimizer, after: ModelAndOptimizer): Redistributed {
      for (const each of [before, after]) {
        requireKind('moveState', 'an argument', each, fields);
        requireModule('moveState', each.model);
      }
      requireSameModel(before.model, after.model);
      const { steps, lr } = before.optimizer;
      const counts = stepCountsOf({ engine, group }, 'moveState()', before.optimizer);
      requireNoFrozenStates(counts);
      before.optimizer.zeroGrad();
      for (const { model } of [before, after]) abandonUnits(model);
      const moved = redistribute({
        ...{ engine, group, before: placed(before), after: placed(after), hasStates: steps > 0 },
        release: (buffer) => {
          before.optimizer.release(buffer);
          buffer.dispose();
        },
      });
      after.optimizer.restore(steps, counts.stepsLeftOut, [], counts.leftOutNext);
      setRates(after.optimizer, lr, groupRates(before.optimizer));
      before.optimizer.dispose();
      before.model.dispose();
      return moved;
    },
  };
}

/** Throws: CONFIG if frozen parameters have states, because only the states of trainable parameters are moved. */
function requireNoFrozenStates({ updatedFrozen: [name] }: StepCounts): void {
  if (name === undefined) return;
  throw new ConfigError(
    `moveState: ${name} is frozen but has been trained before, and its optimizer states would be lost; set requiresGrad to true ` +
      'before the move, in both models, and freeze it again after the move',
  );
}

/** Throws: CONFIG if both are the same model, or if their parameters differ. */
function requireSameModel(before: Module, after: Module): void {
  const [old, wanted] = [before, after].map((model) =>
    [...model.namedState().values()].map((each) => `${each.name} [${wholeShapeOf(each)}]`),
  ) as [string[], string[]]; // one list per model
  const at = old.findIndex((name, i) => name !== wanted[i]);
  const isOne = before === after || before.parameters()[0] === after.parameters()[0];
  if (!isOne && at < 0 && old.length === wanted.length) return;
  throw new ConfigError(
    isOne
      ? 'moveState: both are the same model; build it again, with the new placement, and move the states to it'
      : `moveState: the models differ: ${old[at] ?? 'nothing'} and ${wanted[at < 0 ? old.length : at] ?? 'nothing'}; build the second one with the options of the first`,
  );
}

/** Returns the state of rank 0, which always has a state; every other rank has the same state or no state. */
function stateOf([first]: readonly (TrainerState | null)[]): TrainerState {
  if (first) return first;
  throw new ShardlabError('INTERNAL', 'rank 0 has no run to reshard');
}

function placed({ model, optimizer }: ModelAndOptimizer): PlacedState {
  return { parameters: [...model.namedState().values()], optimizer };
}

/** Reports progress after every twentieth of the work, and at its end. */
function seldom(tell: (done: number, total: number) => void): (done: number, total: number) => void {
  let reportedShare = 0;
  return (done, total) => {
    if (done < total && done / total < reportedShare + TELL_EVERY) return;
    reportedShare = done / total;
    tell(done, total);
  };
}

import type { Engine } from '../../backend/engine';
import { type PlacedState, type Redistributed, redistribute } from '../../checkpoint/reshard/redistribute';
import { exchange } from '../../checkpoint/state/agreement';
import { ShardlabError } from '../../core/errors';
import type { ProcessGroup } from '../../dist/types';
import type { Trainer } from '../../train/trainer';
import type { TrainerState } from '../../train/trainer-state';
import type { RankWork } from '../control/messages';

/** A run as one rank has it. */
export interface RunOnRank {
  readonly trainer: Trainer;
  /** The ranks that train together. */
  readonly group: ProcessGroup;
}

export type ReshardWork = Extract<RankWork, { kind: 'reshard' }>;

interface ReshardOnRank {
  readonly engine: Engine;
  /** All ranks that have the run before or after. */
  readonly group: ProcessGroup;
  readonly before: Trainer | undefined;
  readonly after: Trainer | undefined;
  readonly progress: (done: number, total: number) => void;
}

/** Parts of a hundred at which a rank tells how far it is. */
const TELL_EVERY = 0.05;

/**
 * Moves a run from one trainer to another. Until all ranks have built theirs, nothing of the old one changes; what
 * `progress` is told first says that from now on it does.
 */
export function reshardOnRank(options: ReshardOnRank): Redistributed {
  const { engine, group, before, after } = options;
  group.barrier({ cause: 'control' }).wait();
  options.progress(0, 1);
  // Pending gradients and whole copies go: the next step makes them anew.
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
    progress: seldom(options.progress),
  });
  after?.restore(state);
  return moved;
}

/** It is the same on every rank that has one; the first has. */
function stateOf([first]: readonly (TrainerState | null)[]): TrainerState {
  if (first) return first;
  throw new ShardlabError('INTERNAL', 'rank 0 has no run to reshard');
}

function placed({ model, optimizer }: Trainer): PlacedState {
  return { parameters: model.parameters(), optimizer };
}

/** Passes on every twentieth part, and the end. */
function seldom(tell: (done: number, total: number) => void): (done: number, total: number) => void {
  let told = 0;
  return (done, total) => {
    if (done < total && done / total < told + TELL_EVERY) return;
    told = done / total;
    tell(done, total);
  };
}

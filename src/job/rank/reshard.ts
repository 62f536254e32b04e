import type { Engine } from '../../backend/engine';
import { type PlacedState, type Redistributed, redistribute } from '../../checkpoint/reshard/redistribute';
import { exchange } from '../../checkpoint/state/agreement';
import { ShardlabError } from '../../core/errors';
import type { ProcessGroup } from '../../dist/types';
import type { Trainer } from '../../train/trainer';
import type { TrainerState } from '../../train/trainer-state';

interface ReshardOnRank {
  readonly engine: Engine;
  /** All ranks that have the run before or after the change. */
  readonly group: ProcessGroup;
  readonly before: Trainer | undefined;
  readonly after: Trainer | undefined;
  readonly progress: (done: number, total: number) => void;
}

/** A rank reports its progress after each such share of the work. */
const TELL_EVERY = 0.05;

/**
 * Moves a run from one trainer to another. Until all ranks have built the new trainer, the old one does not change; the
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

/** Returns the state of rank 0, which always has one; other ranks have the same state or none. */
function stateOf([first]: readonly (TrainerState | null)[]): TrainerState {
  if (first) return first;
  throw new ShardlabError('INTERNAL', 'rank 0 has no run to reshard');
}

function placed({ model, optimizer }: Trainer): PlacedState {
  return { parameters: [...model.namedState().values()], optimizer };
}

/** Reports progress after every twentieth of the work, and at its end. */
function seldom(tell: (done: number, total: number) => void): (done: number, total: number) => void {
  let told = 0;
  return (done, total) => {
    if (done < total && done / total < told + TELL_EVERY) return;
    told = done / total;
    tell(done, total);
  };
}

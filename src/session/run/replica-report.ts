import { ConfigError, type Shown, shownAsText, withShown } from '../../core';
import type { DifferingEvent } from '../../figures';
import { eventBetweenRanks } from './made-events';
import type { ComparedRun } from './parity';

/** What `run.checkReplicas` found. Shown in a notebook as one line. */
export interface ReplicaReport extends Shown {
  /** The step that was compared. */
  readonly step: number;
  /** The first event after which values differ that must be equal on several ranks; null if none differ. */
  readonly first: DifferingEvent | null;
}

/** Trains one step and compares what its points make between ranks: see `Run.checkReplicas`. */
export async function checkRunReplicas({ parts, run }: ComparedRun): Promise<ReplicaReport> {
  if (parts.torch !== undefined)
    throw new ConfigError(
      "run.checkReplicas compares values in ranks of shardlab's own engine, not in ranks of PyTorch; launch without engine: 'torch'",
    );
  await parts.made.during(() => run.step());
  const first = await eventBetweenRanks(parts);
  const step = parts.history.lastStep;
  const text =
    first === null
      ? `step ${step}: values that ranks must have in common are equal. A wrong gradient that all ranks share is not seen here: compare with run.parity(other)`
      : `step ${step}: ${first.text}`;
  return withShown({ step, first }, shownAsText(text));
}

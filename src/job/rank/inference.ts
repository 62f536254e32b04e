import { setImmediate } from 'node:timers/promises';
import type { Evaluated } from '../../train/evaluation';
import type { Sampling } from '../../train/sampling';
import type { Trainer } from '../../train/trainer';

type Report = (progress: { readonly done: number; readonly total: number }) => void;

/** Returns the mean loss over a run's validation rows. */
export function evaluateRun(trainer: Trainer, report: Report): Promise<Evaluated> {
  return trainer.evaluate(reporting(report));
}

/** Returns the ids with the ones that a run's model adds. */
export function sampleTokens(
  trainer: Trainer,
  { ids, ...how }: Sampling & { readonly ids: readonly number[] },
  report: Report,
): Promise<number[]> {
  return trainer.sample(ids, how, reporting(report));
}

/** Reports progress, then lets this thread handle messages. */
function reporting(report: Report) {
  return async (done: number, total: number): Promise<void> => {
    report({ done, total });
    await setImmediate();
  };
}

import { setImmediate } from 'node:timers/promises';
import type {
  Captions,
  EvaluationResult,
  SampledVideos,
  Sampling,
  Trainer,
  VideoSampling,
} from '../../training';
import { type OwnPlace, ownMetrics } from './own-parts';

type Report = (progress: { readonly done: number; readonly total: number }) => void;

/** Returns the means of the loss and of the metrics over a run's validation rows; `metrics` has the source of each function. */
export function evaluateRun(
  metrics: Readonly<Record<string, string>>,
  { trainer, ...place }: Pick<OwnPlace, 'scope' | 'group'> & { readonly trainer: Trainer },
  report: Report,
): Promise<EvaluationResult> {
  return trainer.evaluate(reporting(report), ownMetrics(metrics, place));
}

/** Returns the given token ids, followed by the token ids that a run's model adds. */
export function sampleTokens(
  trainer: Trainer,
  { ids, ...how }: Sampling & { readonly ids: readonly number[] },
  report: Report,
): Promise<number[]> {
  return trainer.sample(ids, how, reporting(report));
}

/** Returns the videos that a run's model makes for captions. */
export function sampleVideosOf(
  trainer: Trainer,
  { captions, tokens, ...how }: VideoSampling & Captions,
  report: Report,
): Promise<SampledVideos> {
  return trainer.sampleVideos({ captions, tokens }, how, reporting(report));
}

/** Reports progress, then lets this thread handle messages. */
function reporting(report: Report) {
  return async (done: number, total: number): Promise<void> => {
    report({ done, total });
    await setImmediate();
  };
}

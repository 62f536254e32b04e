import { Progress } from '../../cell';
import { countSchema, parseOptions, positiveSchema, type ShapeOf, wholeSchema } from '../../config';
import { ConfigError } from '../../core';
import { type VideoSheet, videoSheet } from '../../figures';
import type { SampledVideos, VideoSampling } from '../../training';
import type { RunParts } from './calls';
import type { JobData } from './data';
import { runName } from './figures';

/** Options that say how `run.sampleVideo` draws videos. Defaults: 20 steps, shift 1, seed 0. */
export type SampleVideoOptions = Partial<VideoSampling>;

const OPTIONS = {
  steps: countSchema.default(20),
  shift: positiveSchema.default(1),
  seed: wholeSchema.default(0),
} satisfies ShapeOf<SampleVideoOptions>;

/** Samples videos from a run; `Run.sampleVideo` says how. */
export async function sampleVideo(
  { number: run, calls, history, data, jobData }: RunParts & { readonly jobData: JobData },
  captions: string | readonly string[],
  options: SampleVideoOptions,
): Promise<VideoSheet> {
  const how = parseOptions('run.sampleVideo(captions, { … })', options, OPTIONS);
  const texts = typeof captions === 'string' ? [captions] : captions;
  if (!Array.isArray(texts) || texts.length === 0 || texts.some((text) => typeof text !== 'string'))
    throw new ConfigError("run.sampleVideo takes captions, as run.sampleVideo(['a red circle moves right'])");
  const line = new Progress('sampling', 'steps');
  const prompts: readonly string[] = texts; // checked above
  const tokens = await jobData.promptTokens(history.phase.config, data, prompts);
  const work = { kind: 'sampleVideo', run, captions: prompts, tokens, ...how } as const;
  const [sampled] = await calls
    .on<SampledVideos>(history.phase.world, work, {
      progress: (_, { done, total }) => line.show(done, total),
    })
    .finally(() => line.end());
  const { size = [0, 0, 0], videos = [] } = sampled ?? {};
  const title = `${runName({ history })} · Videos after ${history.lastStep} steps, by ${how.steps} Euler steps`;
  return videoSheet(
    title,
    videos.map((values, i) => ({ caption: texts[i] ?? '', size, pixels: bytesOf(values) })),
  );
}

/** Returns pixels as bytes. Shapes: values [3, frames, rows, columns] from -1 to 1 → bytes [frames, rows, columns, 3]. */
function bytesOf(values: Float32Array): Uint8Array {
  const numPixels = values.length / 3;
  return Uint8Array.from(values, (_, i) => {
    const value = values[(i % 3) * numPixels + Math.floor(i / 3)] ?? 0;
    return Math.round(Math.min(255, Math.max(0, 127.5 * (value + 1))));
  });
}

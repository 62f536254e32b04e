import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { type ShowProgress, withProgress } from '../../cell/progress';
import {
  limitAbove,
  type Parsed,
  parseOptions,
  positiveSchema,
  type ShapeOf,
} from '../../config/parse-options';
import { ConfigError, ShardlabError } from '../../core/errors';
import { type LrRange, type LrRangeFigure, lrRangeFigure } from '../../figures/lr-range';
import type { RankStep } from '../control/messages';
import { type RunParts, sendRate } from './calls';
import { loadRun, saveRun } from './checkpoints';
import type { RunTraining } from './training';

/** Options that say how `run.lrRangeTest` increases the learning rate, with torch-lr-finder's names. */
export interface LrRangeOptions {
  /** The first learning rate. Default 1e-6. */
  readonly startLr?: number;
  /** The last learning rate. Default 1. */
  readonly endLr?: number;
  /** The number of steps. From each step to the next, the rate grows by the same factor. Default 100. */
  readonly numIter?: number;
  /** The weight of the newest loss in the smoothed loss, from 0 to 1. Default 0.05. */
  readonly smoothF?: number;
  /** The test ends when the smoothed loss is more than this multiple of the least smoothed loss. Default 5. */
  readonly divergeTh?: number;
}

const OPTIONS = {
  startLr: positiveSchema.default(1e-6),
  endLr: positiveSchema.default(1),
  numIter: z.int().min(3).default(100),
  smoothF: positiveSchema.max(1).default(0.05),
  divergeTh: limitAbove(1).default(5),
} satisfies ShapeOf<LrRangeOptions>;

type Range = Parsed<typeof OPTIONS>;

/** Tests learning rates; `Run.lrRangeTest` says how. `isInterrupted` is called before each step. */
export async function lrRangeTest(
  parts: RunParts & { readonly folder: string },
  training: RunTraining,
  options: LrRangeOptions,
  isInterrupted: () => boolean,
): Promise<LrRangeFigure> {
  const range = checkedRange(options);
  const { number: run, calls, supervisor } = parts;
  const folder = join(parts.folder, `run-${run}-before-lr-range-test`);
  const { newestCheckpoint } = calls;
  try {
    return await withProgress('learning rate range test', 'steps', async (show) => {
      await saveRun(parts, folder, {});
      try {
        return lrRangeFigure(await tryRates(parts, training, range, isInterrupted, show));
      } finally {
        // An interrupt of the test ends its steps, but the run gets its state back.
        await calls.during(supervisor.numInterrupts, () => loadRun(parts, folder, {})).catch(unlessClosed);
      }
    });
  } finally {
    calls.saved(newestCheckpoint);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Throws the error unless it is CLOSED: a failed step has closed the run, and the user gets that step's error instead. */
function unlessClosed(error: unknown): void {
  if (!(error instanceof ShardlabError && error.code === 'CLOSED')) throw error;
}

/** Trains with growing learning rates until the loss diverges. Source: torch-lr-finder's LRFinder.range_test. */
async function tryRates(
  parts: RunParts,
  training: RunTraining,
  { startLr, endLr, numIter, smoothF, divergeTh }: Range,
  isInterrupted: () => boolean,
  show: ShowProgress,
): Promise<LrRange> {
  const [lrs, losses, smoothed]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i < numIter; i++) {
    if (isInterrupted()) throw interrupted(i, numIter);
    const lr = startLr * (endLr / startLr) ** (i / (numIter - 1));
    await sendRate(parts, lr);
    let loss: number | undefined;
    const keepLoss = ([first]: readonly RankStep[]): void => {
      loss = first?.result.loss;
    };
    await training.step(1, keepLoss, { mayDiverge: true });
    if (loss === undefined) throw interrupted(i, numIter);
    const before = smoothed.at(-1) ?? loss;
    lrs.push(lr);
    losses.push(loss);
    smoothed.push(smoothF * loss + (1 - smoothF) * before);
    show(i + 1, numIter, `learning rate range test, lr ${lr.toPrecision(2)}`);
    const newest = smoothed.at(-1) ?? Number.NaN;
    if (!(newest <= divergeTh * Math.min(...smoothed))) return { lrs, losses, smoothed, hasDiverged: true };
  }
  return { lrs, losses, smoothed, hasDiverged: false };
}

function interrupted(numDone: number, numIter: number): ShardlabError {
  return new ShardlabError(
    'INTERRUPTED',
    `run.lrRangeTest was interrupted after ${numDone} of ${numIter} steps; the run is as before`,
  );
}

function checkedRange(options: LrRangeOptions): Range {
  const range = parseOptions('run.lrRangeTest({ … })', options, OPTIONS);
  const { startLr, endLr } = range;
  if (endLr > startLr) return range;
  throw new ConfigError(`run.lrRangeTest: endLr is ${endLr}, but must be above startLr (${startLr})`);
}

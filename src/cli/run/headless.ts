import type { TrainConfig } from '../../config/train-config';
import { launch } from '../../job/launch';
import type { LaunchOptions } from '../../job/options';
import type { StepRecord } from '../../ledger/record';
import type { StepResult } from '../../train/step-result';
import type { Io } from '../io';
import { showProgress } from './terminal-progress';

/** What to train without a notebook. */
export interface HeadlessOptions extends Pick<LaunchOptions, 'ranks' | 'blas'> {
  readonly config: TrainConfig;
  /** A safetensors file with the initial parameters. */
  readonly init?: string | undefined;
}

/** A finished training, as plain data. */
export interface HeadlessRun {
  readonly config: TrainConfig;
  readonly world: number;
  readonly engine: string;
  readonly blas: string;
  readonly numParams: number;
  readonly results: readonly StepResult[];
  readonly records: readonly StepRecord[];
  /** Most resident memory that any rank's process ever had. */
  readonly maxRssBytes: number;
}

/** Trains on rank processes of its own, with progress on stderr. Throws: what launching, training and ranks throw. */
export async function trainHeadless(options: HeadlessOptions, io: Io): Promise<HeadlessRun> {
  const { config, init, ...launchOptions } = options;
  const job = await launch({ ...launchOptions, baseDir: io.cwd });
  try {
    const endProgress = showProgress(io);
    const run = await job.train(config, { init });
    try {
      if (config.steps > 0) await run.step(config.steps);
    } finally {
      endProgress();
    }
    const maxRss = await job.on('all').run(() => process.resourceUsage().maxRSS);
    const [first] = job.ranks;
    return {
      config,
      world: job.numRanks,
      engine: first?.engine ?? '',
      blas: first?.blas ?? '',
      numParams: run.numParams,
      results: run.results,
      records: run.records,
      maxRssBytes: Math.max(...maxRss) * 1024,
    };
  } finally {
    await job.shutdown();
  }
}

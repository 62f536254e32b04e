import type { TrainConfig } from '../../config/train-config';
import { ShardlabError } from '../../core/errors';
import { launch } from '../../job/launch';
import type { LaunchOptions } from '../../job/options';
import { createEventFile, type EventFileWriter } from '../../ledger/event-file';
import type { StepRecord } from '../../ledger/record';
import type { StepResult } from '../../train/step-result';
import type { Io } from '../io';
import { showProgress } from './terminal-progress';

/** What to train without a notebook. */
export interface HeadlessOptions extends Pick<LaunchOptions, 'ranks' | 'blas'> {
  readonly config: TrainConfig;
  /** A safetensors file with the initial parameters. */
  readonly init?: string | undefined;
  /** Where the ledgers of all steps go, also of a training that breaks off. */
  readonly events?: string | undefined;
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
  /** Why the event file is not whole, where it is not. */
  readonly eventsFailure?: ShardlabError | undefined;
}

/**
 * Trains on rank processes of its own, with progress on stderr. Throws: what launching, training and ranks throw, and
 * IO before the first step when the event file cannot be made.
 */
export async function trainHeadless(options: HeadlessOptions, io: Io): Promise<HeadlessRun> {
  const { config, init, events, ...launchOptions } = options;
  const job = await launch({ ...launchOptions, baseDir: io.cwd });
  try {
    const endProgress = showProgress(io);
    const run = await job.train(config, { init });
    const file = events === undefined ? undefined : createEventFile(events, { world: job.numRanks, config });
    let eventsFailure: ShardlabError | undefined;
    try {
      if (config.steps > 0) await run.step(config.steps);
    } finally {
      endProgress();
      eventsFailure = file && save(run.records, file);
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
      eventsFailure,
    };
  } finally {
    await job.shutdown();
  }
}

/** Writes the records; gives the failure instead of throwing it, so that a full disk does not take the training's result away. */
function save(records: readonly StepRecord[], file: EventFileWriter): ShardlabError | undefined {
  try {
    for (const record of records) file.append(record);
    return undefined;
  } catch (error) {
    if (error instanceof ShardlabError) return error;
    throw error;
  } finally {
    file.close();
  }
}

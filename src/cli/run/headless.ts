import { registerDisplay, terminalSink } from '../../cell';
import type { TrainConfig, TrainConfigInput } from '../../config';
import { ShardlabError } from '../../core';
import type { LaunchOptions } from '../../launch';
import { createEventFile, type EventFileWriter, type StepRecord } from '../../ledger';
import { type Job, launch, type Run } from '../../session';
import { requireSavePlace, type StepResult } from '../../training';
import { type Io, terminalOf } from '../io';

/** Options of a training without a notebook. */
export interface HeadlessOptions extends Pick<LaunchOptions, 'ranks' | 'engine' | 'python' | 'blas'> {
  /** The config as the user wrote it. A default value without effect gets a warning only if the user wrote it. */
  readonly config: TrainConfigInput;
  /** A safetensors file with the initial parameters. */
  readonly init?: string | undefined;
  /** The file for the ledgers of all steps; it is written even if the training fails. */
  readonly events?: string | undefined;
  /** A folder for a checkpoint after the last step. */
  readonly save?: string | undefined;
  /** A checkpoint to continue from. */
  readonly resume?: string | undefined;
}

/** A finished training, as plain data. */
export interface HeadlessRun {
  readonly config: TrainConfig;
  readonly world: number;
  readonly engine: string;
  readonly blas: string;
  readonly numParams: number;
  readonly results: readonly StepResult[];
  /** How many of the last steps were slower because they were profiled: 1 on PyTorch (the last step of a call), else 0. */
  readonly numProfiled: number;
  /** `records`: the records of all steps and ranks. `lastStep`: those of the last step, one per rank. */
  readonly records: Iterable<StepRecord>;
  readonly lastStep: readonly StepRecord[];
  /** The largest resident memory of a rank's process. */
  readonly maxRssBytes: number;
  /** The error that made the event file incomplete; undefined: the file is complete. */
  readonly eventsFailure?: ShardlabError | undefined;
}

/**
 * Launches ranks and trains, with progress on stderr. Throws: the errors of the launch, the training and
 * the ranks. Throws the code IO, before the first step, if the event file or the checkpoint cannot be made.
 */
export async function trainHeadless(options: HeadlessOptions, io: Io): Promise<HeadlessRun> {
  const { config: input, init, events, save, resume, ...launchOptions } = options;
  if (save !== undefined) requireSavePlace(save);
  const job = await launch({ ...launchOptions, baseDir: io.cwd });
  try {
    const { run, eventsFailure } = await onTerminal(io, async () => {
      const building = job.train(input, { init });
      const run = resume === undefined ? await building : await building.load(resume);
      const { config } = run;
      const numSteps = stepsLeft(run, config.steps, io);
      const file =
        events === undefined ? undefined : createEventFile(events, { world: job.numRanks, config });
      let eventsFailure: ShardlabError | undefined;
      try {
        if (numSteps > 0) await run.step(numSteps);
      } finally {
        eventsFailure = file && write(run.records, file);
      }
      return { run, eventsFailure };
    });
    if (save !== undefined) io.stderr(`${await run.save(save)}\n`);
    const maxRss = await maxRssOf(job, options.engine);
    const [first] = job.ranks;
    return {
      config: run.config,
      world: job.numRanks,
      engine: first?.engine ?? '',
      blas: first?.blas ?? '',
      numParams: run.numParams,
      results: run.results,
      numProfiled: options.engine === 'torch' ? 1 : 0,
      records: run.records,
      lastStep: run.records.newest(),
      maxRssBytes: Math.max(...maxRss) * 1024,
      eventsFailure,
    };
  } finally {
    await job.shutdown();
  }
}

/** Returns the largest resident memory of each rank's process, in KiB. */
function maxRssOf(job: Job, engine: LaunchOptions['engine']): Promise<number[]> {
  const all = job.on('all');
  return engine === 'torch'
    ? (all.python('import resource\nresource.getrusage(resource.RUSAGE_SELF).ru_maxrss') as Promise<number[]>)
    : all.measure<number>({ kind: 'maxRss' });
}

/** Returns the number of remaining steps: `steps` minus the steps that the checkpoint contains. */
function stepsLeft({ lastStep }: Run, steps: number, io: Io): number {
  if (lastStep === 0) return steps;
  const left = Math.max(0, steps - lastStep);
  const rest =
    left === 0 ? `no step of ${steps} is left: give more --steps` : `${left} of ${steps} steps are left`;
  io.stderr(`step ${lastStep} loaded, ${rest}\n`);
  return left;
}

/** Writes the records. Returns an error instead of throwing it, because the training's result must survive a full disk. */
function write(records: Iterable<StepRecord>, file: EventFileWriter): ShardlabError | undefined {
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

/** Does `work`, and shows what it displays in one line of stderr. */
export async function onTerminal<T>(io: Io, work: () => Promise<T>): Promise<T> {
  const line = terminalSink(terminalOf(io));
  const unregister = registerDisplay(line);
  try {
    return await work();
  } finally {
    unregister();
    line.close();
  }
}

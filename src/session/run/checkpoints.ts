import fs from 'node:fs';
import { join, relative } from 'node:path';
import { Progress, type ProgressPlace } from '../../cell';
import { flagSchema, LONGEST_PATH, parseOptions, type ShapeOf } from '../../config';
import {
  type Bytes,
  ConfigError,
  formatBytes,
  formatSeconds,
  linkTarget,
  now,
  type Seconds,
  ShardlabError,
  type Shown,
  shown,
  shownAsText,
  withShown,
} from '../../core';
import { firstRanks, type LoadResult, type SavedBeside, warnOnStderr } from '../../launch';
import {
  folderToRead,
  NOTHING_WRITTEN,
  refuseOtherFormats,
  SAVE_OPTIONS,
  type SaveOptions,
  STATE_FILE,
} from '../../training';
import type { RunParts } from './calls';

/** Options of run.save. */
export interface RunSaveOptions extends Omit<SaveOptions, 'trainer'> {
  /**
   * If true, run.save resolves when the state is copied, so steps may continue while the checkpoint is written. Default
   * false.
   */
  readonly async?: boolean;
}

/** A checkpoint that is saved, or is being written. Shown in a notebook as one line. */
export interface RunSave extends Shown {
  /** Absolute path of the folder. */
  readonly path: string;
  /** Number of the last step that the checkpoint contains. */
  readonly step: number;
  readonly bytes: Bytes;
  /** The time that it took to copy the state; training waits for this copy. */
  readonly copySeconds: Seconds;
  /** Resolves when the checkpoint is in place. Throws: IO, RANK_DIED; the previous checkpoint then stays complete. */
  readonly done: Promise<void>;
}

/** Options of run.load. */
export interface RunLoadOptions {
  /** If true, optimizer states and the number of steps do not change. Default false. */
  readonly parametersOnly?: boolean;
}

/** A checkpoint that was loaded. Shown in a notebook as one line. */
export interface RunLoad extends Shown {
  readonly path: string;
  /** The run continues with the step after this one; null if only parameters were loaded. */
  readonly step: number | null;
  /** Bytes that were read, summed over ranks. */
  readonly bytesRead: Bytes;
  readonly seconds: Seconds;
}

const { trainer: _, ...SAVE_OPTIONS_OF_USERS } = SAVE_OPTIONS;
const SAVE = { ...SAVE_OPTIONS_OF_USERS, async: flagSchema.default(false) } satisfies ShapeOf<RunSaveOptions>;

const LOAD = { parametersOnly: flagSchema.default(false) } satisfies ShapeOf<RunLoadOptions>;

/** Options of saves within this library, in addition to the options of `run.save`. */
interface SaveParts {
  /** What is saved besides the parameters. Default: the optimizer's states. */
  readonly beside?: SavedBeside;
  /** The folder that messages name if the save goes into a temporary folder. Default: the folder of the save. */
  readonly shownAs?: string;
  /** The display that shows the progress. */
  readonly place?: ProgressPlace;
  /** Whether the library removes the checkpoint itself, so that it does not count as the run's newest. */
  readonly isTemporary?: boolean;
}

/** Saves a run; `Run.save` says how. */
export async function saveRun(
  parts: RunParts,
  given: string,
  settings: RunSaveOptions,
  { beside = 'states', shownAs = given, place = {}, isTemporary = false }: SaveParts = {},
): Promise<RunSave> {
  const { async: isAsync, ...options } = parseOptions('run.save(path, { … })', settings, SAVE);
  const { number: run, calls, history, supervisor, torch } = parts;
  const path = pathOf('save', given);
  const { world } = history.phase;
  const { lastStep: step, evaluations } = history;
  const start = now();
  const line = new Progress(`saving step ${step}`, 'bytes', place);
  const expected = supervisor.saves.expect(world, line.show);
  let bytes: Bytes;
  let hasBegun = false;
  try {
    const work = {
      kind: 'save',
      run,
      save: expected.id,
      folder: path,
      options,
      beside,
      evaluations,
      ...(torch && { torchState: torch.stateAfter(history.numUpdates) }),
    } as const;
    const begins = (): void => {
      hasBegun = true;
    };
    const copied = await calls.on<Bytes>(world, work, { begins });
    bytes = copied.reduce((sum, one) => sum + one, 0);
  } catch (error) {
    line.end();
    await expected.abandon(hasBegun ? unfailedRanks(error, world) : []);
    throw error;
  }
  const copySeconds = now() - start;
  // A temporary folder has other bytes than the folder that is made of it.
  const size = shownAs === given ? `, ${formatBytes(bytes)}` : '';
  const text = `step ${step} saved: ${shortened(pathOf('save', shownAs))}${size}`;
  const done = expected.done.then(
    () => {
      if (beside === 'states' && !isTemporary) calls.saved({ path, step });
      line.finish(text);
    },
    (error: unknown) => {
      line.finish(`step ${step} was not saved: ${error instanceof Error ? error.message : String(error)}`);
      throw error;
    },
  );
  // The line shows the failure even to a user who does not await the save.
  done.catch(() => undefined);
  if (!isAsync) await done;
  const facts = { path, step, bytes, copySeconds, done };
  return withShown(facts, shownAsText(`${text}, copied in ${formatSeconds(copySeconds)}`));
}

/** Returns the ranks that ended their work without an error, although the call failed, such as by an interrupt. */
function unfailedRanks(error: unknown, world: number): number[] {
  const errors = error instanceof ShardlabError ? error.details.errors : undefined;
  return firstRanks(world).filter((rank) => !(rank in Object(errors)));
}

/** Loads a checkpoint into a run; `Run.load` says how. */
export async function loadRun(
  parts: RunParts,
  given: string,
  options: RunLoadOptions,
  place: ProgressPlace = {},
): Promise<RunLoad> {
  const { parametersOnly } = parseOptions('run.load(path, { … })', options, LOAD);
  const { number: run, calls, history } = parts;
  const path = pathOf('load', given);
  checkFolder(path, parametersOnly);
  const start = now();
  const line = new Progress(`loading ${shortened(path)}`, 'bytes', place);
  try {
    const work = { kind: 'load', run, folder: path, parametersOnly } as const;
    const ranks = await calls.on<LoadResult>(history.phase.world, work, { progress: line.showOf });
    const step = ranks[0]?.steps ?? null;
    const { dpo, lora } = history.phase.config;
    if (step === null && dpo !== null && lora === null && history.lastStep === 0)
      warnOnStderr(OTHER_REFERENCE);
    const { lrs, schedule = null } = ranks[0] ?? {};
    if (step !== null) history.resume(step, ranks[0]?.evaluations, schedule?.steps);
    if (lrs !== undefined) parts.torch?.restore(lrs, schedule);
    calls.saved({ path, step });
    const bytesRead = ranks.reduce((sum, rank) => sum + rank.bytesRead, 0);
    const seconds = now() - start;
    const what = step === null ? 'parameters' : `step ${step}`;
    const text = `${what} loaded: ${shortened(path)}, ${formatBytes(bytesRead)} in ${formatSeconds(seconds)}`;
    line.finish(text);
    return withShown({ path, step, bytesRead, seconds }, shownAsText(text));
  } catch (error) {
    line.end();
    if (!isUnchanged(error)) calls.breakOff(`while it loaded ${path}`, error);
    throw error;
  }
}

const OTHER_REFERENCE =
  'run.load: only the trained model got the loaded parameters; the reference model of dpo still has its first weights. To begin DPO with ' +
  "these parameters, give them as the first weights: model: { from: './folder' }, or job.train(config, { init: file })";

/**
 * Whether ranks still hold the values that they had before a failed load. CLOSED means that the load did not begin, or
 * that the job has ended.
 */
function isUnchanged(error: unknown): boolean {
  return (
    error instanceof ShardlabError && (error.code === 'CLOSED' || error.details[NOTHING_WRITTEN] === true)
  );
}

function pathOf(what: 'save' | 'load', path: unknown): string {
  if (typeof path === 'string' && path !== '' && path.length <= LONGEST_PATH) return linkTarget(path);
  const given = path === '' ? 'an empty text' : shown(path);
  throw new ConfigError(`run.${what} takes a folder's path, as run.${what}('ckpt'), not ${given}`);
}

/** The most looks at a folder whose files disappear, because another process replaces the checkpoint. */
const MOST_LOOKS = 20;

/** Checks the folder before ranks read it. Throws: IO, also for a path that cannot be read at all (a socket, a path through a file). */
function checkFolder(path: string, parametersOnly: boolean, looks = MOST_LOOKS): void {
  try {
    requireReadable(path, parametersOnly);
  } catch (cause) {
    if (!(cause instanceof Error) || !('syscall' in cause)) throw cause;
    if (looks > 1 && 'code' in cause && cause.code === 'ENOENT') {
      checkFolder(path, parametersOnly, looks - 1);
      return;
    }
    const message = `${path} cannot be read (${cause.message}); name the folder of a checkpoint`;
    throw new ShardlabError('IO', message, { cause, details: { file: path } });
  }
}

function requireReadable(path: string, parametersOnly: boolean): void {
  const folder = folderToRead(fs, path);
  if (fs.existsSync(join(folder, STATE_FILE))) return;
  if (!fs.statSync(folder).isDirectory()) throw notAFolder(folder);
  const names = fs.readdirSync(folder).filter((name) => MODEL_FILE.test(name));
  // If there are safetensors files, pickle files are ignored.
  const readable = names.filter((name) => name.endsWith('.safetensors'));
  for (const name of readable.length > 0 ? readable : names) {
    refuseOtherFormats(join(folder, name));
  }
  if (parametersOnly) return;
  throw new ShardlabError(
    'IO',
    `${folder} has no ${STATE_FILE}, so the state of the training is unknown; to load only a model's files, use ` +
      'run.load(path, { parametersOnly: true })',
    { details: { file: folder } },
  );
}

/** Names of files with a model's values, in any format. */
const MODEL_FILE = /\.(safetensors|pth|pt|bin|ckpt)$/i;

/** Returns the error for a path that is not a folder. Throws: IO naming a torch pickle, Git-LFS pointer, FIFO or device. */
function notAFolder(file: string): ShardlabError {
  refuseOtherFormats(file);
  return new ShardlabError(
    'IO',
    `${file} is a file, but run.load takes the folder of a checkpoint; to start from the values of one safetensors file, use ` +
      'job.train(config, { init: file })',
    { details: { file } },
  );
}

/** Returns the path relative to the current folder, unless it is outside of that folder. */
function shortened(path: string): string {
  const seen = relative(process.cwd(), path);
  return seen === '' || seen.startsWith('..') ? path : seen;
}

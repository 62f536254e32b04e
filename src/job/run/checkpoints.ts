import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { currentDisplay } from '../../cell/display';
import { folderToRead } from '../../checkpoint/format/checkpoint-folder';
import { NOTHING_WRITTEN, STATE_FILE } from '../../checkpoint/format/checkpoint-state';
import { MAGIC_BYTES, refuseOtherFormats } from '../../checkpoint/format/not-safetensors';
import { requireKnownOptions } from '../../config/option-names';
import { ConfigError, ShardlabError } from '../../core/errors';
import { openRegularFile } from '../../core/regular-file';
import { type Bytes, formatBytes, now } from '../../core/units';
import type { SaveDesk } from '../launch/save-desk';
import type { RankLoad } from '../rank/saves';
import type { RunCalls } from './calls';
import type { RunHistory } from './history';
import { createProgressLine } from './progress-line';
import {
  createRunLoad,
  createRunSave,
  type RunLoad,
  type RunLoadOptions,
  type RunSave,
  type RunSaveOptions,
  savedText,
} from './save';

interface RunCheckpointsParts {
  readonly run: number;
  readonly calls: RunCalls;
  readonly history: RunHistory;
  readonly saves: SaveDesk;
}

/**
 * Whether ranks still hold the values of before a failed load. CLOSED means that the load did not begin, or the job is
 * gone.
 */
function isUnchanged(error: unknown): boolean {
  return (
    error instanceof ShardlabError && (error.code === 'CLOSED' || error.details[NOTHING_WRITTEN] === true)
  );
}

const SAVE_OPTIONS: readonly string[] = [
  'type',
  'maxShardBytes',
  'dtype',
  'async',
] satisfies (keyof RunSaveOptions)[];

/** Saves and loads checkpoints of a run. */
export class RunCheckpoints {
  readonly #parts: RunCheckpointsParts;

  constructor(parts: RunCheckpointsParts) {
    this.#parts = parts;
  }

  async save(given: string, settings: RunSaveOptions): Promise<RunSave> {
    requireKnownOptions('run.save(path, { … })', settings, SAVE_OPTIONS);
    const { async: isAsync = false, ...options } = settings;
    const { run, calls, history, saves } = this.#parts;
    const path = pathOf('save', given);
    const { world } = history.phase;
    const step = history.lastStep;
    const start = now();
    const expected = saves.expect(world);
    const line = createProgressLine(currentDisplay());
    expected.listen((written, total) => {
      line.show(`saving step ${step}: ${formatBytes(written)} of ${formatBytes(total)}`, written, total);
    });
    let bytes: Bytes;
    try {
      const work = { kind: 'save', run, save: expected.id, folder: path, options } as const;
      const copied = await calls.on<Bytes>(world, work);
      bytes = copied.reduce((sum, one) => sum + one, 0);
    } catch (error) {
      expected.cancel();
      throw error;
    }
    const copySeconds = now() - start;
    const done = expected.done.then(
      () => {
        calls.saved(path);
        line.finish(savedText({ path, step, bytes }));
      },
      (error: unknown) => {
        line.finish(`step ${step} was not saved: ${error instanceof Error ? error.message : String(error)}`);
        throw error;
      },
    );
    // The line also shows it to a user who does not await the save.
    done.catch(() => undefined);
    if (!isAsync) await done;
    return createRunSave({ path, step, bytes, copySeconds, done });
  }

  async load(given: string, options: RunLoadOptions): Promise<RunLoad> {
    requireKnownOptions('run.load(path, { … })', options, ['parametersOnly']);
    const { parametersOnly = false } = options;
    const { run, calls, history } = this.#parts;
    const path = pathOf('load', given);
    checkFolder(path, parametersOnly);
    const start = now();
    try {
      const work = { kind: 'load', run, folder: path, parametersOnly } as const;
      const ranks = await calls.on<RankLoad>(history.phase.world, work);
      const step = ranks[0]?.steps ?? null;
      if (step !== null) history.resume(step);
      calls.saved(path);
      const bytesRead = ranks.reduce((sum, rank) => sum + rank.bytesRead, 0);
      const loaded = createRunLoad({ path, step, bytesRead, seconds: now() - start });
      createProgressLine(currentDisplay()).finish(String(loaded));
      return loaded;
    } catch (error) {
      if (!isUnchanged(error)) calls.breakOff(`while it loaded ${path}`, error);
      throw error;
    }
  }
}

function pathOf(what: 'save' | 'load', path: unknown): string {
  if (typeof path === 'string' && path !== '') return resolve(path);
  const given = path === '' ? 'an empty text' : String(path);
  throw new ConfigError(`run.${what} takes a folder's path, as run.${what}('ckpt'), not ${given}`);
}

/** Checks the folder before ranks begin. Throws: IO. */
function checkFolder(path: string, parametersOnly: boolean): void {
  const folder = folderToRead(fs, path);
  if (fs.existsSync(join(folder, STATE_FILE))) return;
  if (!fs.statSync(folder).isDirectory()) throw notAFolder(folder);
  const names = fs.readdirSync(folder).filter((name) => MODEL_FILE.test(name));
  // Pickles beside safetensors are ignored.
  const readable = names.filter((name) => name.endsWith('.safetensors'));
  for (const name of readable.length > 0 ? readable : names) {
    refuseOtherFormats(join(folder, name), firstBytes(join(folder, name)));
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

/** The error names a torch pickle, a Git-LFS pointer, a FIFO or a device as such. */
function notAFolder(file: string): ShardlabError {
  refuseOtherFormats(file, firstBytes(file));
  return new ShardlabError(
    'IO',
    `${file} is a file, but run.load takes the folder of a checkpoint; to take the values of one safetensors file, use ` +
      'job.train(config, { init: file })',
    { details: { file } },
  );
}

function firstBytes(file: string): Buffer {
  const bytes = Buffer.alloc(MAGIC_BYTES);
  const opened = openRegularFile(file);
  try {
    return bytes.subarray(0, fs.readSync(opened, bytes));
  } finally {
    fs.closeSync(opened);
  }
}

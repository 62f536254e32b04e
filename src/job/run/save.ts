import { relative } from 'node:path';
import type { SaveOptions } from '../../checkpoint/save/save-plan';
import { type Bytes, formatBytes, formatSeconds, type Seconds } from '../../core/units';
import { type Shown, shownAsText, withShown } from '../../figures/shown';

/** How run.save writes. */
export interface RunSaveOptions extends Omit<SaveOptions, 'trainer'> {
  /** Resolves when the state is copied, so steps may continue while it is written. Default false. */
  readonly async?: boolean;
}

/** A checkpoint that is saved, or is being written. Shown in a notebook as one line. */
export interface RunSave extends Shown {
  /** Absolute path of the folder. */
  readonly path: string;
  /** Number of the run's last step in it. */
  readonly step: number;
  readonly bytes: Bytes;
  /** The time until the state was copied; training waited for it. */
  readonly copySeconds: Seconds;
  /** Resolves when the checkpoint is in place. Throws: IO, RANK_DIED; then the previous checkpoint is complete. */
  readonly done: Promise<void>;
}

/** How run.load reads. */
export interface RunLoadOptions {
  /** Does not change optimizer states and the count of steps. Default false. */
  readonly parametersOnly?: boolean;
}

/** A checkpoint that was loaded. Shown in a notebook as one line. */
export interface RunLoad extends Shown {
  readonly path: string;
  /** The run continues with the step after this one; null if only parameters were loaded. */
  readonly step: number | null;
  /** Bytes that all ranks read together. */
  readonly bytesRead: Bytes;
  readonly seconds: Seconds;
}

/** A save, as messages describe it. */
export function savedText({ path, step, bytes }: Pick<RunSave, 'path' | 'step' | 'bytes'>): string {
  return `step ${step} saved: ${shortened(path)}, ${formatBytes(bytes)}`;
}

/** Makes the object of a started save. */
export function createRunSave(
  facts: Pick<RunSave, 'path' | 'step' | 'bytes' | 'copySeconds' | 'done'>,
): RunSave {
  const text = `${savedText(facts)}, copied in ${formatSeconds(facts.copySeconds)}`;
  return withShown({ ...facts }, shownAsText(text));
}

/** Makes the object of a load. */
export function createRunLoad(facts: Pick<RunLoad, 'path' | 'step' | 'bytesRead' | 'seconds'>): RunLoad {
  const { path, step, bytesRead, seconds } = facts;
  const what = step === null ? 'parameters' : `step ${step}`;
  const text = `${what} loaded: ${shortened(path)}, ${formatBytes(bytesRead)} in ${formatSeconds(seconds)}`;
  return withShown({ ...facts }, shownAsText(text));
}

/** The path relative to the current folder, unless it is outside of that folder. */
function shortened(path: string): string {
  const seen = relative(process.cwd(), path);
  return seen === '' || seen.startsWith('..') ? path : seen;
}

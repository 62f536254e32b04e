import { relative } from 'node:path';
import type { SaveOptions } from '../../checkpoint/save/save-plan';
import { type Bytes, formatBytes, formatSeconds, type Seconds } from '../../core/units';
import { type Shown, shownAsText, withShown } from '../../figures/shown';

/** How run.save writes. */
export interface RunSaveOptions extends Omit<SaveOptions, 'trainer'> {
  /** Resolves when the state was copied: steps may go on while it is written. Default false. */
  readonly async?: boolean;
}

/** A checkpoint that was saved, or is being written. Shown in a notebook as one line. */
export interface RunSave extends Shown {
  /** Absolute. */
  readonly path: string;
  /** Steps of the run that it holds. */
  readonly step: number;
  readonly bytes: Bytes;
  /** Until the state was copied: the time that training stood still. */
  readonly copySeconds: Seconds;
  /** Resolves when the checkpoint is in its place. Throws: IO, RANK_DIED; the one before it is whole then. */
  readonly done: Promise<void>;
}

/** How run.load reads. */
export interface RunLoadOptions {
  /** Leaves optimizer states and the count of steps as they are. Default false. */
  readonly parametersOnly?: boolean;
}

/** A checkpoint that was loaded. Shown in a notebook as one line. */
export interface RunLoad extends Shown {
  readonly path: string;
  /** The next step is the one after it; null where only parameters were loaded. */
  readonly step: number | null;
  /** What all ranks read together. */
  readonly bytesRead: Bytes;
  readonly seconds: Seconds;
}

/** What messages say of a save. */
export function savedText({ path, step, bytes }: Pick<RunSave, 'path' | 'step' | 'bytes'>): string {
  return `step ${step} saved: ${shortened(path)}, ${formatBytes(bytes)}`;
}

/** A save that was begun. */
export function createRunSave(
  facts: Pick<RunSave, 'path' | 'step' | 'bytes' | 'copySeconds' | 'done'>,
): RunSave {
  const text = `${savedText(facts)}, copied in ${formatSeconds(facts.copySeconds)}`;
  return withShown({ ...facts }, shownAsText(text));
}

/** What ranks read. */
export function createRunLoad(facts: Pick<RunLoad, 'path' | 'step' | 'bytesRead' | 'seconds'>): RunLoad {
  const { path, step, bytesRead, seconds } = facts;
  const what = step === null ? 'parameters' : `step ${step}`;
  const text = `${what} loaded: ${shortened(path)}, ${formatBytes(bytesRead)} in ${formatSeconds(seconds)}`;
  return withShown({ ...facts }, shownAsText(text));
}

/** As it is seen from the current folder, unless it lies outside of that. */
function shortened(path: string): string {
  const seen = relative(process.cwd(), path);
  return seen === '' || seen.startsWith('..') ? path : seen;
}

import { resolve } from 'node:path';
import { withProgressSync } from '../../cell';
import {
  flagSchema,
  LONGEST_PATH,
  modelShape,
  parseOptions,
  publishedModel,
  type ShapeOf,
} from '../../config';
import {
  type Bytes,
  ConfigError,
  formatBytes,
  isFolder,
  type Shown,
  shown,
  shownAsText,
  withShown,
  withTemporaryFolder,
} from '../../core';
import { processMark, SAVE_OPTIONS, type SaveOptions, writePretrained } from '../../training';
import type { RunParts } from './calls';
import { saveRun } from './checkpoints';

/** Options that say how a model's files are written. */
export interface PretrainedOptions extends Pick<SaveOptions, 'maxShardBytes' | 'dtype'> {
  /** Saves only the adapters of `lora`, as PEFT does. Default: false, which adds each adapter to its matrix. */
  readonly adapter?: boolean;
}

/** A model that was saved in Hugging Face's format. Shown in a notebook as one line. */
export interface PretrainedFolder extends Shown {
  /** Absolute path of the folder. */
  readonly path: string;
  readonly bytes: Bytes;
}

const OPTIONS = {
  maxShardBytes: SAVE_OPTIONS.maxShardBytes,
  dtype: SAVE_OPTIONS.dtype,
  adapter: flagSchema.default(false),
} satisfies ShapeOf<PretrainedOptions>;

/** Saves a run's model in Hugging Face's format; `Run.savePretrained` says how. */
export async function savePretrained(
  parts: RunParts,
  folder: string,
  options: PretrainedOptions,
): Promise<PretrainedFolder> {
  const { adapter, ...save } = parseOptions('run.savePretrained(folder, { … })', options, OPTIONS);
  if (typeof folder !== 'string' || folder === '' || folder.length > LONGEST_PATH) {
    throw new ConfigError(
      `run.savePretrained takes a folder's path, as run.savePretrained('model'), not ${shown(folder)}`,
    );
  }
  const path = resolve(folder);
  const { lora } = parts.history.phase.config;
  if (adapter && lora === null)
    throw new ConfigError(
      'run.savePretrained: adapter is for runs with lora, and this run has no lora; leave out adapter',
    );
  const shape = modelShape(parts.history.phase.config);
  publishedModel(shape); // Refuses a kind of model that has no published format, before ranks save anything.
  const source = `${path}.whole-${processMark()}`;
  return withTemporaryFolder(source, async () => {
    const parameters = { beside: 'nothing', shownAs: folder } as const;
    await saveRun(parts, source, { ...save, type: 'FULL_STATE_DICT' }, parameters);
    const { maxShardBytes } = save;
    const bytes = withProgressSync('writing the model', 'bytes', (progress) =>
      writePretrained({
        source,
        folder: path,
        shape,
        maxShardBytes,
        lora: lora && { ...lora, only: adapter },
        progress,
      }),
    );
    return withShown(
      { path, bytes },
      shownAsText(
        `${adapter ? 'adapters saved for PEFT' : `model saved for ${publishedModel(shape).reader}`}: ${folder}, ${formatBytes(bytes)}`,
      ),
    );
  });
}

/**
 * Throws: CONFIG if job.train's init is not the path of a file or a list of paths. The code that reads the files reports
 * whether they are readable.
 */
export function checkInit(init: unknown): void {
  if (init === undefined) return;
  const files: readonly unknown[] = Array.isArray(init) ? init : [init];
  for (const file of files) {
    if (typeof file !== 'string' || file === '') {
      throw new ConfigError(
        `job.train: init is ${String(file)}; give the path of a safetensors file, or a list of paths`,
      );
    }
    if (!isFolder(file)) continue;
    throw new ConfigError(
      `job.train: init is ${file}, a folder, but must be safetensors files; for a model in Hugging Face's format, use ` +
        'model: { from: folder }; to continue from a checkpoint, use job.train(config).load(folder), and to load only a ' +
        'model, use run.load(folder, { parametersOnly: true })',
    );
  }
}

import { randomUUID } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isNames, type OwnData, ownData } from '../../config/settings/data';
import { modelShape } from '../../config/settings/model';
import type { TrainConfig } from '../../config/train-config';
import { now, type Seconds } from '../../core/units';
import { createBatches, createOwnBatches } from '../../data/batches';
import { findFiles } from '../../data/files/find-files';
import { prepareData } from '../../data/prepare/prepare-data';
import { type TextCodec, textCodecOf, tokenizerFiles } from '../../data/prepare/tokenizer';
import type { PreparedData } from '../../data/prepared';
import { createProgressLine } from './progress';

/** Reading that takes longer shows its progress. */
const SHOWN_AFTER: Seconds = 0.5;

/** Where a job's data come from, and where they are prepared. */
export interface JobDataOptions {
  /** The folder in which relative paths begin. */
  readonly baseDir: string;
  /** The job's folder. */
  readonly folder: string;
}

/** Prepares the data of a job's runs; runs on the same files share the prepared data. [Note: prepared data] */
export class JobData {
  readonly #options: JobDataOptions;
  /** By what identifies settings and files. */
  readonly #prepared = new Map<string, Promise<PreparedData>>();

  constructor(options: JobDataOptions) {
    this.#options = options;
  }

  /**
   * Prepares a config's own data and checks that they fit to the model; returns undefined for built-in data. Throws: CONFIG naming file,
   * line or row, column, and what to change.
   */
  async prepare(config: TrainConfig, world: number): Promise<PreparedData | undefined> {
    const data = ownData(config.data);
    // The videos of a dit are random numbers; a warning says so.
    const { kind } = modelShape(config);
    if (data === null || kind === 'dit') return undefined;
    const prepared = await this.#once(data, config.seed);
    const create = kind === 'own' ? createOwnBatches : createBatches;
    create(config, { world, prepared });
    return prepared;
  }

  /** Returns the tokens of a config's texts: of its tokenizer, of the tokenizer in the model's folder, or bytes. Throws: CONFIG. */
  codecOf(config: TrainConfig): Promise<TextCodec> {
    const { baseDir } = this.#options;
    const [data, shape] = [ownData(config.data), modelShape(config)];
    const from = 'from' in shape ? shape.from : undefined;
    const hasTokenizer = from !== undefined && existsSync(tokenizerFiles(from, baseDir)[0]);
    const tokenizer = data?.tokenizer ?? (hasTokenizer ? from : undefined);
    return textCodecOf({ tokenizer, eosToken: null }, baseDir);
  }

  async #once(data: OwnData, seed: number): Promise<PreparedData> {
    const key = this.#keyOf(data, seed);
    const preparing = this.#prepared.get(key) ?? this.#prepare(data, seed);
    this.#prepared.set(key, preparing);
    try {
      return await preparing;
    } catch (error) {
      // The user may mend the file.
      this.#prepared.delete(key);
      throw error;
    }
  }

  async #prepare(data: OwnData, seed: number): Promise<PreparedData> {
    const { baseDir, folder } = this.#options;
    const line = createProgressLine();
    const start = now();
    let isShown = false;
    const prepared = await prepareData(data, {
      baseDir,
      seed,
      fileFor: (name) => join(folder, `data-${randomUUID()}-${name}`),
      progress(name, share) {
        if (now() - start < SHOWN_AFTER) return;
        isShown = true;
        const left = Math.ceil(((now() - start) * (1 - share)) / share);
        line.show(`reading ${name}: ${Math.round(100 * share)}%, ${left} s left`, share, 1);
      },
    });
    if (isShown) line.finish(`read ${prepared.name} in ${(now() - start).toFixed(1)} s`);
    return prepared;
  }

  /** Returns what identifies settings and the state of their files; arrays may change unseen, so they are never the same. */
  #keyOf(data: OwnData, seed: number): string {
    const { path, format, validation, tokenizer } = data;
    if (path === undefined) return randomUUID();
    const { baseDir } = this.#options;
    const paths = [path, isNames(validation) ? validation : []].flat();
    const { files } = findFiles({ paths, format, baseDir });
    const tokenizers = tokenizer === undefined ? [] : tokenizerFiles(tokenizer, baseDir);
    const states = [...files, ...tokenizers].map((file) => {
      const stats = statSync(file, { throwIfNoEntry: false });
      return [file, stats?.size, stats?.mtimeMs];
    });
    return JSON.stringify([data, seed, states]);
  }
}

/** Returns a config without the values of arrays, which ranks read from prepared files. */
export function withoutValues(config: TrainConfig): TrainConfig {
  const { data } = config;
  if (typeof data === 'string') return config;
  const emptied = <Value>(value: Value): Value | Uint8Array =>
    value === undefined || isNames(value) ? value : new Uint8Array(0);
  return {
    ...config,
    data: { ...data, tokens: emptied(data.tokens), x: emptied(data.x), y: emptied(data.y) },
  };
}

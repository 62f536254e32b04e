import { randomUUID } from 'node:crypto';
import {
  isNames,
  isVideoModel,
  modelShape,
  parseTrainConfig,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config';
import { ShardlabError, statIfThere } from '../../core';
import { type DataFolders, prepareInFolder } from '../../launch';
import {
  codecOf,
  createBatches,
  createOwnBatches,
  type DataToPrepare,
  dataToPrepare,
  filesOfData,
  type PreparedData,
  promptCodecOf,
  type TextCodec,
  videosOf,
} from '../../training';

/** The numbers of training rows, validation rows, and training examples. */
export interface RowCounts {
  readonly train: number;
  readonly validation: number;
  readonly examples: number;
}

/** Prepares the data of a job's runs; runs on the same files share the prepared data. [Note: prepared data] */
export class JobData {
  readonly #options: DataFolders;
  /** The prepared data; the key identifies their settings and files. */
  readonly #prepared = new Map<string, Promise<PreparedData>>();
  /** Ends the preparations that run. */
  #stop = new AbortController();

  constructor(options: DataFolders) {
    this.#options = options;
  }

  /**
   * Prepares a config's own data and checks that they fit the model; returns undefined for built-in data. Throws:
   * CONFIG naming file, line or row, column, and what to change; INTERRUPTED after `interrupt`.
   */
  async prepare(config: TrainConfig, world: number): Promise<PreparedData | undefined> {
    const data = dataToPrepare(config, this.#options.baseDir);
    const shape = modelShape(config);
    if (data === null) return undefined;
    const prepared = await this.#once(data, config.seed);
    if (isVideoModel(shape)) videosOf({ config, shape, world, prepared });
    else (shape.kind === 'own' ? createOwnBatches : createBatches)(config, { world, prepared });
    return prepared;
  }

  /** Ends the preparations that run; they throw INTERRUPTED. */
  interrupt(): void {
    this.#stop.abort(
      new ShardlabError('INTERRUPTED', 'the reading of data was interrupted; train again to read them'),
    );
    this.#stop = new AbortController();
  }

  /** Prepares a config's data and counts the rows of an epoch; undefined if the data are no conversations. Throws: CONFIG, IO. */
  async countRows(input: TrainConfigInput, world: number): Promise<RowCounts | undefined> {
    const prepared = await this.prepare(parseTrainConfig(input), world);
    if (prepared?.kind !== 'instructions') return undefined;
    const { train, validation } = prepared;
    return { train: train.numRows, validation: validation?.numRows ?? 0, examples: train.numExamples };
  }

  /** Returns the codec of a config's texts. Throws: CONFIG. */
  codecOf(config: TrainConfig): Promise<TextCodec> {
    return codecOf(config, this.#options.baseDir);
  }

  /**
   * Returns the token ids of texts, as a run on the user's videos has them; null for built-in videos. Throws: CONFIG for a word that no
   * text of the data has.
   */
  async promptTokens(
    config: TrainConfig,
    prepared: PreparedData | undefined,
    texts: readonly string[],
  ): Promise<readonly (readonly number[])[] | null> {
    const data = dataToPrepare(config, this.#options.baseDir);
    if (prepared?.kind !== 'videos' || data === null) return null;
    const codec = await promptCodecOf(data, this.#options.baseDir, prepared.words ?? []);
    return texts.map((text) => codec.encode(text, prepared.textLen).ids);
  }

  async #once(data: DataToPrepare, seed: number): Promise<PreparedData> {
    const { signal } = this.#stop;
    const key = await this.#keyOf(data, seed);
    const preparing = this.#prepared.get(key) ?? prepareInFolder(data, seed, this.#options, signal);
    this.#prepared.set(key, preparing);
    try {
      return await preparing;
    } catch (error) {
      // The user may correct the file and try again.
      this.#prepared.delete(key);
      throw error;
    }
  }

  /**
   * Returns a key that identifies settings and the state of their files. Data that are arrays get a new key in each
   * call, because the user may have changed an array's values.
   */
  async #keyOf(data: DataToPrepare, seed: number): Promise<string> {
    const files = await filesOfData(data, this.#options.baseDir);
    if (files === null) return randomUUID();
    const states = files.map((file) => {
      const stats = statIfThere(file);
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

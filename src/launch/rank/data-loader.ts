import {
  type OwnData,
  ownData,
  parseTrainConfig,
  requireKnownOptions,
  type TrainConfigInput,
} from '../../config';
import { ConfigError, classOf, errorJson, isPlain, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import {
  agree,
  type EpochBatches,
  exchange,
  type FileBatch,
  fileBatch,
  openData,
  type PreparedData,
  type RankFailure,
  type RowBatch,
  type ValidationBatches,
} from '../../training';
import type { ProcessGroup } from '../../wire';
import type { DataFolders } from './prepare-in-folder';

/** The data of a loader: a path, or the settings that `data` of job.train has. */
export type LoaderData = string | Exclude<TrainConfigInput['data'], string | undefined>;

/** Settings of a loader, with the names and defaults of job.train. */
export type LoaderOptions = Pick<TrainConfigInput, 'batch' | 'seed'>;

/** The ranks that share the rows, and the folders of the data. */
export interface LoaderPlace {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  /** Omitted if no files can be read, as in a dry run. */
  readonly files?: DataFolders | undefined;
}

const NAME = 'dataLoader()';

/** Prepares data on rank 0 and opens them on every rank; `dataLoader` of src/rank.ts describes it. */
export async function openLoader(
  place: LoaderPlace,
  source: LoaderData,
  options: LoaderOptions = {},
): Promise<DataLoader> {
  const { engine, group } = place;
  const { data, batch, seed } = settingsOf(source, options);
  let made: PreparedData | null = null;
  let outcome: RankFailure = null;
  try {
    if (group.rank === 0) made = await prepare(place, data, seed);
  } catch (error) {
    outcome = errorJson(error);
  }
  agree(place, NAME, outcome);
  const settings = JSON.stringify({ data, batch, seed }, (_, value: unknown) =>
    ArrayBuffer.isView(value) ? `${value.byteLength} bytes` : value,
  );
  const [first, ...others] = exchange(place, NAME, { made, settings });
  const unequalIndex = others.findIndex((each) => each.settings !== first?.settings);
  if (unequalIndex >= 0) {
    throw new ConfigError(
      `${NAME}: rank 0 gives ${first?.settings}, rank ${unequalIndex + 1} gives ${others[unequalIndex]?.settings}; all ranks must give the same settings`,
    );
  }
  if (!first?.made) throw new ShardlabError('INTERNAL', 'the data was not prepared');
  return new DataLoader(
    engine,
    group,
    openData(first.made, { batch, seed, world: group.size, seq: data.seq }),
  );
}

/** Checks the settings as job.train does. Throws: CONFIG. */
function settingsOf(source: unknown, options: LoaderOptions) {
  requireKnownOptions('dataLoader(data, { … })', options, ['batch', 'seed']);
  const isBuiltIn = source === 'typescript' || source === 'synthetic' || source === 'function';
  if (isBuiltIn || (typeof source !== 'string' && !isPlain(source))) {
    throw new ConfigError(
      `dataLoader reads files and arrays, not ${classOf(source)}; write dataLoader('./images') or dataLoader({ path: './my.txt', seq: 128 }). ` +
        'If a function of your own makes the batches, call it in the loop, without a loader',
    );
  }
  const config = parseTrainConfig({ ...options, data: source, model: { kind: 'own' }, loss: 'function' });
  // Built-in data were refused above.
  return { ...config, data: ownData(config.data) as OwnData };
}

async function prepare({ files }: LoaderPlace, data: OwnData, seed: number): Promise<PreparedData> {
  if (files === undefined) {
    throw new ConfigError(
      'dataLoader: a dry run or a plan reads no files; give tensors of the same shapes, such as tf.zeros([4, 7])',
    );
  }
  const { prepareInFolder } = await import('./prepare-in-folder.js');
  return prepareInFolder(data, seed, files);
}

/** One rank's microbatches of files or arrays. A `for` reads one epoch; the next `for` reads the next epoch. */
export class DataLoader implements Iterable<FileBatch> {
  readonly #engine: Engine;
  readonly #rank: number;
  readonly #batches: EpochBatches<RowBatch>;
  #numLoops = 0;

  constructor(engine: Engine, { rank }: ProcessGroup, batches: EpochBatches<RowBatch>) {
    this.#engine = engine;
    this.#rank = rank;
    this.#batches = batches;
  }

  /** The rows that are never trained on. Throws: CONFIG if the data have none. */
  get validation(): ValidationLoader {
    const { validation } = this.#batches;
    if (validation) return new ValidationLoader(this.#engine, this.#rank, validation);
    throw new ConfigError(
      "loader.validation: these data have no rows that are never trained on; give them, as dataLoader({ path: './my.txt', seq: 128, " +
        'validation: 0.1 })',
    );
  }

  /** Number of microbatches of an epoch. The last one is filled with rows of the next epoch; the next `for` continues there. */
  get length(): number {
    return this.#batches.numBatches;
  }

  /**
   * Returns a microbatch; `index` counts from 0 over all epochs. The caller disposes the microbatch's tensors, or calls
   * `batch` in tf.tidy.
   */
  batch(index: number): FileBatch {
    return tensorsOf(this.#engine, this.#batches.batch(this.#rank, index));
  }

  /** Yields the microbatches of the next epoch; a microbatch is freed when the loop asks for the next one, or ends. */
  *[Symbol.iterator](): Generator<FileBatch, void> {
    const first = this.length * this.#numLoops++;
    for (let i = 0; i < this.length; i++) yield* lend(this.batch(first + i));
  }
}

/** A batch of rows that are never trained on. */
export interface CountedBatch extends FileBatch {
  /** How many of the batch's rows count in the mean: all, or 0 if the rank has no row left and repeats another rank's row. */
  readonly counted: number;
}

/**
 * The rows that are never trained on; each row counts once over all ranks. All ranks get equally many batches, because the
 * forward of a sharded model needs all ranks. The last batches may have fewer rows than the others.
 */
export class ValidationLoader implements Iterable<CountedBatch> {
  readonly #engine: Engine;
  readonly #rank: number;
  readonly #batches: ValidationBatches<RowBatch>;

  constructor(engine: Engine, rank: number, batches: ValidationBatches<RowBatch>) {
    this.#engine = engine;
    this.#rank = rank;
    this.#batches = batches;
  }

  /** Number of rows, over all ranks. */
  get numRows(): number {
    return this.#batches.numRows;
  }

  /** Yields this rank's batches, and frees them as a DataLoader does. */
  *[Symbol.iterator](): Generator<CountedBatch, void> {
    for (let i = 0; i < this.#batches.numBatches; i++) {
      const { batch, counted } = this.#batches.batch(this.#rank, i);
      yield* lend({ ...tensorsOf(this.#engine, batch), counted });
    }
  }
}

function tensorsOf(engine: Engine, batch: RowBatch): FileBatch {
  return engine.tagged({ cause: 'batch', module: '' }, () => fileBatch(batch));
}

function* lend<Batch extends FileBatch>(batch: Batch): Generator<Batch, void> {
  try {
    yield batch;
  } finally {
    tf.dispose([batch.x, batch.y]);
  }
}

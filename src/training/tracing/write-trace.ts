import { join } from 'node:path';
import type { TrainConfig } from '../../config';
import { ConfigError } from '../../core';
import * as tf from '../../core/tf';
import { createBatches, type DataPlace } from '../data/batches';
import { type OwnBatch, ownTask } from '../own-task';
import type { TracedProgram } from './program';
import { type StoredTensor, writeTensors } from './stored-tensors';
import {
  requireOwnModel,
  type TracedModel,
  type TracedTraining,
  tensorsByName,
  traceModel,
} from './trace-model';

/** The file, within a bundle, of tensors that a forward makes of values in the code. */
const CONSTANTS_FILE = 'constants.safetensors';

/** Returns the file, within a bundle, of the batches of a data-parallel rank. */
function batchesFile(rank: number): string {
  return join('data', `rank-${rank}.safetensors`);
}

/** Batches to store: microbatches `first` and later, of a number of steps or of as many as fit into `mostBytes`. */
export interface WantedBatches {
  readonly first: number;
  readonly accumulation: number;
  /** The number of steps; if it is null, at most `mostSteps`, and at least one. */
  readonly steps: number | null;
  readonly mostSteps: number;
  /** The most bytes of one rank's batches, if the number of steps is not given. */
  readonly mostBytes: number;
}

/** Traces a model, writes the values of its constants into `folder`, and returns its program. Throws: CONFIG, and errors of the file system. */
function writeTrace(
  training: Omit<TracedTraining, 'own'> & { readonly own: Parameters<typeof requireOwnModel>[0] },
  folder: string,
): TracedProgram {
  const { program, constants } = traceModel({ ...training, own: requireOwnModel(training.own) });
  if (constants.size > 0) writeTensors(join(folder, CONSTANTS_FILE), storedConstants(constants));
  return program;
}

function storedConstants(constants: TracedModel['constants']): ReadonlyMap<string, StoredTensor> {
  return new Map(
    [...constants].map(([name, { shape, dtype, source }]) => {
      const numbers = source.kind === 'constant' ? source.values : [];
      const values = dtype === 'float32' ? Float32Array.from(numbers) : Int32Array.from(numbers);
      return [name, { shape, values }];
    }),
  );
}

/** The batches of a rank that are stored. */
export interface StoredBatches {
  /** The number of steps whose batches are stored. */
  readonly steps: number;
  /** Whether the first batch was the same when it was made again; if not, the run trains on other batches than those stored. */
  readonly isRepeatable: boolean;
}

/**
 * Stores the batches of data-parallel rank `rank` in `folder`, each tensor under the number of its microbatch and its place in the
 * batch: '0.x'.
 */
function writeBatchesOf(
  { engine, config, own, data }: Parameters<typeof writeTrace>[0],
  rank: number,
  { first, accumulation, steps, mostSteps, mostBytes }: WantedBatches,
  folder: string,
): StoredBatches {
  const { model } = requireOwnModel(own);
  const task = ownTask(engine, config, model, own, data);
  const stored = new Map<string, StoredTensor>();
  const made = (index: number) => storedBatch(task.batch(rank, first + index), index);
  let count = (steps ?? mostSteps) * accumulation;
  for (let index = 0; index < count; index++) {
    const batch = made(index);
    for (const [name, tensor] of batch) stored.set(name, tensor);
    if (index > 0 || steps !== null) continue;
    const bytes = [...batch.values()].reduce((sum, { values }) => sum + 4 * values.length, 0);
    count = accumulation * Math.max(1, Math.min(mostSteps, Math.floor(mostBytes / (bytes * accumulation))));
  }
  const isRepeatable = [...made(0)].every(([name, { values }]) => isEqual(values, stored.get(name)?.values));
  writeTensors(join(folder, batchesFile(rank)), stored);
  return { steps: count / accumulation, isRepeatable };
}

/**
 * Stores the batches of data-parallel rank `rank` in `folder` for a language model in Python: 'N.inputs' and 'N.targets', [batch, seq] each.
 * Throws: CONFIG for data that do not fit the model, and for instructions, whose labels are not stored.
 */
export function storeTokens(
  config: TrainConfig,
  place: DataPlace,
  rank: number,
  { first, accumulation, steps, mostSteps, mostBytes }: WantedBatches,
  folder: string,
): StoredBatches {
  const source = createBatches(config, place);
  const stored = new Map<string, StoredTensor>();
  let count = (steps ?? mostSteps) * accumulation;
  for (let index = 0; index < count; index++) {
    const { batch, seq, tokens, answers } = source.batch(rank, first + index);
    if (answers !== undefined)
      throw new ConfigError(
        'run.export: a bundle has no labels, so it cannot train on instructions; train on rows of tokens, or return inputs and labels by model.batches',
      );
    const part = (from: number): Int32Array =>
      Int32Array.from(
        { length: batch * seq },
        (_, i) => tokens[Math.floor(i / seq) * (seq + 1) + (i % seq) + from] ?? 0,
      );
    stored.set(`${index}.inputs`, { shape: [batch, seq], values: part(0) });
    stored.set(`${index}.targets`, { shape: [batch, seq], values: part(1) });
    if (index > 0 || steps !== null) continue;
    const bytes = 2 * 4 * batch * seq;
    count = accumulation * Math.max(1, Math.min(mostSteps, Math.floor(mostBytes / (bytes * accumulation))));
  }
  writeTensors(join(folder, batchesFile(rank)), stored);
  return { steps: count / accumulation, isRepeatable: true };
}

/** Copies the tensors of a batch, and frees them. */
function storedBatch({ batch, tensors }: OwnBatch, index: number): ReadonlyMap<string, StoredTensor> {
  const copied = [...tensorsByName(batch)].map(([name, tensor]) => {
    return [`${index}.${name}`, { shape: tensor.shape, values: tensor.dataSync().slice() }] as const;
  });
  tf.dispose([...tensors]);
  return new Map(copied);
}

function isEqual(values: StoredTensor['values'], others: StoredTensor['values'] | undefined): boolean {
  return values.length === others?.length && values.every((value, i) => Object.is(value, others[i]));
}

/** What a rank has stored for one data-parallel rank; `program` is null except for data-parallel rank 0. */
export interface StoredTrace extends StoredBatches {
  readonly program: TracedProgram | null;
}

/**
 * Stores the batches of data-parallel rank `rank` in `folder`; for rank 0, also traces the model, and stores the values of its
 * constants. Throws: CONFIG for a model that cannot be traced, and errors of the file system.
 */
export function traceAndStore(
  training: Parameters<typeof writeTrace>[0],
  rank: number,
  wanted: WantedBatches,
  folder: string,
): StoredTrace {
  const program = rank === 0 ? writeTrace(training, folder) : null;
  return { program, ...writeBatchesOf(training, rank, wanted, folder) };
}

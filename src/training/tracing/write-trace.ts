import { join } from 'node:path';
import * as tf from '../../core/tf';
import { ownTask } from '../own-task';
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
export const CONSTANTS_FILE = 'constants.safetensors';

/** Returns the file, within a bundle, of the batches of a data-parallel rank. */
export function batchesFile(rank: number): string {
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
export function writeTrace(
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

/**
 * Stores the batches of data-parallel rank `rank` in `folder`, each tensor under the number of its microbatch and its place in the
 * batch: '0.x'. Returns the number of steps whose batches are stored.
 */
export function writeBatchesOf(
  { engine, config, own, data }: Parameters<typeof writeTrace>[0],
  rank: number,
  { first, accumulation, steps, mostSteps, mostBytes }: WantedBatches,
  folder: string,
): number {
  const { model } = requireOwnModel(own);
  const task = ownTask(engine, config, model, own, data);
  const stored = new Map<string, StoredTensor>();
  let count = (steps ?? mostSteps) * accumulation;
  for (let index = 0; index < count; index++) {
    const batch = task.batch(rank, first + index);
    let bytes = 0;
    for (const [name, tensor] of tensorsByName(batch.batch)) {
      const values = tensor.dataSync().slice();
      stored.set(`${index}.${name}`, { shape: tensor.shape, values });
      bytes += 4 * values.length;
    }
    tf.dispose([...batch.tensors]);
    if (index > 0 || steps !== null) continue;
    count = accumulation * Math.max(1, Math.min(mostSteps, Math.floor(mostBytes / (bytes * accumulation))));
  }
  writeTensors(join(folder, batchesFile(rank)), stored);
  return count / accumulation;
}

import { storedBytes } from '../format/stored-dtypes';
import { accessOf, type TrainingState } from '../state/training-state';
import type { SavePlan } from './save-plan';
import type { SaveSink } from './save-sink';

/** Elements that are copied at once: 4 MiB. */
const CHUNK_ELEMENTS = 2 ** 20;

/**
 * Copies this rank's elements in chunks of whole checksum blocks, and passes each chunk to the sink before it copies
 * the next. Resolves when everything is copied; then the state may change.
 */
export async function stageState(
  state: TrainingState,
  { tasks }: SavePlan,
  sink: SaveSink,
  blockElements: number,
): Promise<void> {
  const access = accessOf(state);
  const most = Math.max(1, Math.floor(CHUNK_ELEMENTS / blockElements)) * blockElements;
  for (const { task, position } of tasks) {
    const { array, file, tensor } = task;
    const { dtype } = array;
    for (let done = 0; done < task.length; done += most) {
      const range = { start: task.start + done, length: Math.min(most, task.length - done) };
      // A read returns a new copy, whose buffer can be passed to another thread.
      const values = access.read(array, range) as Float32Array<ArrayBuffer>;
      const place = { at: task.at + done, position: position + storedBytes(dtype) * done };
      await sink.write({ file, tensor, dtype, ...place, values });
    }
  }
}

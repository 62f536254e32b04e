import { storeNotebook } from './notebook-inputs.mjs';
import { storePair } from './notebook-pair.mjs';
import { StepError } from './step.mjs';

/** The exit status of an execution that was interrupted. */
const INTERRUPTED = 130;

/**
 * Executes notebooks one after the other, and stores each, and its copy in the Chinese notebook, as soon as all its cells have
 * run. `execute` takes a path and returns an exit status. Returns 0, or 130 after an interrupt. Throws: a StepError with the names of the notebooks that failed.
 */
export async function storeExecuted(paths, execute) {
  const failed = [];
  for (const path of paths) {
    const status = await execute(path);
    if (status === INTERRUPTED) return status;
    if (status === 0) {
      storeNotebook(path);
      storePair(path);
    } else failed.push(path);
  }
  if (failed.length === 0) return 0;
  const others = paths.length - failed.length;
  throw new StepError(
    `Failed and not stored: ${failed.join(', ')}. Stored: ${others} of ${paths.length} notebooks`,
    'the errors above say which cells failed; npm run notebooks -- PATH… executes these notebooks alone',
  );
}

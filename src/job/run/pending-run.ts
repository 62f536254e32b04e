import type { Run } from './run';

/** A run that is being built. */
export interface PendingRun extends Promise<Run> {
  /**
   * The run, which continues from a checkpoint. Throws: as building and run.load do; then nothing of the run remains.
   */
  load(path: string): Promise<Run>;
}

/** Gives a promise of a run its `load`. */
export function pendingRun(building: Promise<Run>): PendingRun {
  return Object.assign(building, {
    load: async (path: string): Promise<Run> => {
      const run = await building;
      try {
        await run.load(path);
        return run;
      } catch (error) {
        // The caller must get the reason why it was not loaded.
        await run.dispose().catch(() => undefined);
        throw error;
      }
    },
  });
}

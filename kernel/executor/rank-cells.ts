import type { DisplaySink } from '../../src/cell';
import { ShardlabError } from '../../src/core';
import { type OutputSink, outputs } from '../../src/launch';
import { type Job, registeredJobs } from '../../src/session';
import type { FromExecutor, RunRanks } from './protocol';
import { RankDebug } from './rank-debug';

/** Time in which an interrupted cell must end in all ranks. */
const INTERRUPT_SECONDS = 8;

/** Runs `%%ranks` cells in the newest job. */
export class RankCells {
  /** The debugger's link to ranks. */
  readonly debug: RankDebug;
  readonly #running = new Set<{ readonly job: Job; readonly giveUp: (reason: unknown) => void }>();

  constructor(send: (message: FromExecutor) => void) {
    this.debug = new RankDebug(send);
  }

  /**
   * Resolves when all selected ranks have ended the cell; `begins` is called before the ranks get the cell, and `display` gets its
   * outputs. Throws: CONFIG if
   * there is no job; the errors of `job.runCell`.
   */
  async run(
    { code, language, cell, selection, debug }: RunRanks,
    display: DisplaySink,
    begins: () => void,
  ): Promise<void> {
    const job = registeredJobs().at(-1);
    if (job === undefined) {
      throw new ShardlabError(
        'CONFIG',
        "%%ranks needs a job and there is none; run this in a cell first: import * as sl from 'shardlab'; const job = await sl.launch({ ranks: 4 });",
      );
    }
    if (debug !== undefined) this.debug.listen(job);
    const output = outputs.createLiveOutput(display);
    const { promise: abandoned, reject: giveUp } = deferred();
    const running = { job, giveUp };
    this.#running.add(running);
    try {
      const place = { cell, selection, begins };
      const sink: OutputSink = (event) => output.add(event);
      const ended =
        language === 'Python'
          ? job.runPython({ source: code, ...place }, sink)
          : job.runCell({ js: code, debug, ...place }, sink);
      await Promise.race([ended, abandoned]);
    } finally {
      this.#running.delete(running);
      output.finish();
    }
  }

  /** Interrupts the ranks of the running cells. */
  interrupt(): void {
    for (const { job, giveUp } of this.#running) {
      setTimeout(() => giveUp(notStopped(job)), INTERRUPT_SECONDS * 1e3).unref();
      job.interrupt().catch(giveUp);
    }
  }
}

/** Returns a promise that only `reject` settles. */
function deferred() {
  let reject: (reason: unknown) => void = () => undefined;
  const promise = new Promise<never>((_, rejects) => {
    reject = rejects;
  });
  return { promise, reject };
}

function notStopped(job: Job): ShardlabError {
  const ranks = job.busyRanks().map(({ rank, pid, activity }) => `rank ${rank} (pid ${pid}) ${activity}`);
  return new ShardlabError(
    'INTERRUPTED',
    `ranks did not stop within ${INTERRUPT_SECONDS} s: ${ranks.join('; ')}; if such a rank still does not stop, it is killed, and the job must be launched again`,
  );
}

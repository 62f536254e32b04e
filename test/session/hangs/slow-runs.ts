import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import type { TestContext } from 'node:test';
import { collectNotes } from './shown-hangs';

/** Work that ends by itself, by what is slow about it. Ranks wait for it longer than for a hang's note. */
export type SlowRuns = Readonly<Record<string, () => Promise<unknown>>>;

/** The variable of the environment that says for how many minutes the runs are repeated. */
const MINUTES = 'SHARDLAB_HANG_MINUTES';

/** How long a rank lets others wait, in seconds: longer than the time after which a hang is said. */
export const SLOW_SECONDS = 8;

/**
 * Repeats all runs for `minutes`, or for as long as the environment says; every second time with two busy processes per core; no
 * run may give a note.
 */
export async function checkQuiet(context: TestContext, runs: SlowRuns, minutes: number): Promise<void> {
  const shown = collectNotes(context);
  const end = performance.now() + Number(process.env[MINUTES] ?? minutes) * 60e3;
  let numRuns = 0;
  for (let round = 0; round === 0 || performance.now() < end; round++) {
    const busy = round % 2 === 1 ? startBusy(2 * availableParallelism()) : [];
    try {
      for (const [what, run] of Object.entries(runs)) {
        await run();
        numRuns++;
        assert.equal(shown.notes[0], undefined, `${what}, round ${round}`);
        if (performance.now() > end && round > 0) break;
      }
    } finally {
      for (const each of busy) each.kill('SIGKILL');
    }
  }
  context.diagnostic(`${numRuns} slow runs, ${shown.notes.length} notes`);
}

function startBusy(count: number): ChildProcess[] {
  return Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', 'while (true) {}'], { stdio: 'ignore' }),
  );
}

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { registerDisplay } from '../../../src/cell/display';
import type { Job } from '../../../src/session/run/job';
import { HANG_MS } from '../job-fixture';

/** A note comes 5 to 6 s after a rank began to wait, and a rank begins to wait at most a second after the cell's begin. */
export const NOTE_SECONDS = 7;

/**
 * Cells, by what keeps rank 2 from its collective, and what the note says of who waits and of rank 2; or, if the cell cannot go on,
 * what its error says. A rank that is stopped is named 'a stopped …'.
 */
export type Planted = Readonly<Record<string, readonly [code: string, says: RegExp]>>;

/** A display that collects the notes about hangs, and their pictures; the last note of a hang is empty. */
export function collectNotes(context: TestContext) {
  const notes: string[] = [];
  const pictures: string[] = [];
  const take = (bundle: Readonly<Record<string, unknown>>, id = ''): void => {
    if (!id.startsWith('shardlab-hang')) return;
    notes.push(String(bundle['text/plain']));
    pictures.push(String(bundle['text/html']));
  };
  const restore = registerDisplay({
    display: (bundle, options) => take(bundle, options?.displayId),
    update: (id, bundle) => take(bundle, id),
    clear: () => undefined,
  });
  context.after(restore);
  return {
    notes,
    pictures,
    /** Waits for a note that was not there before, or for the text of `ended`; fails after `seconds`. */
    async next(seconds: number, ended?: () => string | undefined): Promise<string> {
      const before = notes.length;
      const start = performance.now();
      while (notes.length === before) {
        const text = ended?.();
        if (text !== undefined) return text;
        assert.ok(performance.now() - start < seconds * 1e3, `no note within ${seconds} s`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return notes.at(-1) ?? '';
    },
  };
}

/** Runs each cell by `run`, which never rejects; its note or error must say what is missing, and the note be gone after the cell. */
export async function checkPlanted(
  context: TestContext,
  job: Job,
  planted: Planted,
  run: (code: string) => Promise<unknown>,
): Promise<void> {
  const shown = collectNotes(context);
  for (const [what, [code, says]] of Object.entries(planted)) {
    await context.test(what, { timeout: HANG_MS }, async () => {
      let error: string | undefined;
      const ended = run(code).then((outcome) => {
        error = outcome instanceof Error ? outcome.message : 'the cell ended without an error';
      });
      const note = await shown.next(NOTE_SECONDS, () => error);
      if (what.startsWith('a stopped')) process.kill(job.ranks[2]?.pid ?? 0, 'SIGCONT');
      else if (error === undefined) await job.interrupt();
      await ended;
      assert.match(note, says);
      assert.equal(shown.notes.at(-1) ?? '', '');
    });
  }
}

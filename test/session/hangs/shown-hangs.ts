import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { registerDisplay } from '../../../src/cell/display';

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
    /** Waits for a note that was not there before; fails after `seconds`. */
    async next(seconds: number): Promise<string> {
      const before = notes.length;
      const start = performance.now();
      while (notes.length === before) {
        assert.ok(performance.now() - start < seconds * 1e3, `no note within ${seconds} s`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return notes.at(-1) ?? '';
    },
  };
}

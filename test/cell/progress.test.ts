import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { DisplaySink } from '../../src/cell/display';
import {
  isWithinProgress,
  Progress,
  type Terminal,
  terminalSink,
  withProgress,
  withProgressSync,
} from '../../src/cell/progress';

/** A place with a simulated clock, whose display, timer and terminal write into lists. */
function fakePlace({ isTerminal = true, columns = 80 } = {}) {
  let seconds = 100;
  const [shown, written] = [[] as string[], [] as string[]];
  const ticks = new Set<() => void>();
  const cleaners = new Set<() => void>();
  const show = (bundle: Readonly<Record<string, unknown>>): void => {
    shown.push(String(bundle['text/plain']));
  };
  const sink: DisplaySink = { display: show, update: (_, bundle) => show(bundle), clear: () => undefined };
  const now = (): number => seconds;
  const clock = {
    now,
    every(_: number, tick: () => void) {
      ticks.add(tick);
      return () => void ticks.delete(tick);
    },
  };
  const terminal: Terminal = {
    now,
    isTerminal,
    columns,
    write: (text) => void written.push(text),
    onInterrupt(clean) {
      cleaners.add(clean);
      return () => void cleaners.delete(clean);
    },
  };
  const pass = (more: number): void => {
    seconds += more;
    for (const tick of ticks) tick();
  };
  return { shown, written, ticks, cleaners, pass, notebook: { sink, clock }, console: { terminal, clock } };
}

test('work that ends within two seconds shows nothing', () => {
  const { shown, written, pass, notebook, console, ticks } = fakePlace();
  for (const place of [notebook, console]) {
    const progress = new Progress('loading', 'bytes', place);
    pass(1.9);
    progress.show(1, 2);
    progress.end('loaded');
  }
  assert.deepEqual([shown, written], [[], []]);
  assert.equal(ticks.size, 0);
});

test('a line says what is done, how much, the share, and the time that is left', () => {
  const { shown, pass, notebook } = fakePlace();
  const progress = new Progress('starting', 'ranks', notebook);
  pass(4);
  progress.show(2, 8);
  pass(1);
  progress.show(1000, 5000, 'searching');
  pass(55);
  progress.end();
  assert.deepEqual(shown, [
    'starting: 4 s',
    'starting: 2 of 8 ranks, 25%, about 15 s left',
    'searching: 1,000 of 5,000 ranks, 20%, about 4 min left',
    '',
  ]);
});

test('bytes have units, and the parts of ranks are summed', () => {
  const { shown, pass, notebook } = fakePlace();
  const progress = new Progress('loading', 'bytes', notebook);
  progress.showOf(0, { done: 1e6, total: 4e6 });
  progress.showOf(1, { done: 1e6, total: 4e6 });
  pass(3);
  progress.end('loaded');
  assert.deepEqual(shown, ['loading: 2.00 MB of 8.00 MB, 25%, about 9 s left', 'loaded']);
});

test('a line is drawn at most four times per second, however often work reports', () => {
  const { shown, pass, notebook } = fakePlace();
  const progress = new Progress('searching', 'layouts', notebook);
  pass(2);
  for (let done = 1; done <= 10_000; done++) progress.show(done, 10_000);
  assert.equal(shown.length, 1);
  pass(0.2);
  assert.equal(shown.length, 1);
  pass(0.05);
  assert.equal(shown.length, 2);
});

test('the news of short work is shown in a notebook only', () => {
  const { shown, written, notebook, console } = fakePlace();
  for (const place of [notebook, console]) new Progress('saving', 'bytes', place).finish('step 1 saved');
  assert.deepEqual([shown, written], [['step 1 saved'], []]);
});

test('a terminal redraws one line, cut at its width, and ends with the last text or a clean line', () => {
  for (const [text, last] of [
    ['saved', ['\rsaved\x1b[K\r', 'saved\x1b[K\n']],
    ['', ['\r\x1b[K\r']],
  ] as const) {
    const { written, pass, console } = fakePlace({ columns: 20 });
    const progress = new Progress('saving', 'bytes', console);
    progress.show(1e6, 3e6);
    pass(2);
    progress.end(text);
    assert.deepEqual(written, ['\rsaving: 1.00 MB of \x1b[K\r', ...last]);
  }
});

test('an interrupt leaves a clean line in a terminal', () => {
  const { written, cleaners, pass, console } = fakePlace();
  const progress = new Progress('saving', 'bytes', console);
  assert.equal(cleaners.size, 0);
  pass(2);
  for (const clean of cleaners) clean();
  assert.deepEqual(written, ['\rsaving: 2 s\x1b[K\r', '\r\x1b[K']);
  progress.end();
  assert.equal(cleaners.size, 0);
});

test('a log gets a line every ten seconds, and the last state only after such a line', () => {
  const { written, pass, console } = fakePlace({ isTerminal: false });
  const progress = new Progress('training', '', console);
  for (let second = 1; second <= 25; second++) pass(1);
  progress.end('trained');
  assert.deepEqual(written, ['training: 10 s\n', 'training: 20 s\n', 'trained\n']);
  const short = fakePlace({ isTerminal: false });
  const other = new Progress('training', '', short.console);
  short.pass(9);
  other.end('trained');
  assert.deepEqual(short.written, []);
});

test("a terminal shows a display's newest first line, and a log its last state", () => {
  const log = fakePlace({ isTerminal: false });
  const line = terminalSink(log.console.terminal);
  line.display({ 'text/plain': 'step 1/9' });
  log.pass(10);
  line.update('', { 'text/plain': 'step 2/9' });
  line.update('', { 'text/plain': 'step 9/9\nThe loss falls' });
  line.close();
  assert.deepEqual(log.written, ['step 2/9\n', 'step 9/9\n']);
});

test('work within other work is silent, and the line goes away after an error', async () => {
  const { shown, pass, notebook } = fakePlace();
  const work = withProgress(
    'claims',
    'experiments',
    async (show) => {
      assert.ok(isWithinProgress());
      const inner = new Progress('loading', 'bytes', notebook);
      await setImmediate();
      show(1, 2, 'first');
      pass(3);
      inner.finish('loaded');
      throw new Error('failed');
    },
    notebook,
  );
  await assert.rejects(work, /failed/);
  assert.ok(!isWithinProgress());
  assert.deepEqual(shown, ['first: 1 of 2 experiments, 50%, about 3 s left', '']);
});

test('blocking work has no timer, and its line goes away', async () => {
  const { shown, pass, ticks, notebook } = fakePlace();
  const found = withProgressSync(
    'searching',
    'layouts',
    (show) => {
      assert.equal(ticks.size, 0);
      pass(3);
      show(1, 4);
      return 7;
    },
    notebook,
  );
  assert.equal(found, 7);
  await setImmediate();
  assert.deepEqual(shown, ['searching: 1 of 4 layouts, 25%, about 9 s left', '']);
});

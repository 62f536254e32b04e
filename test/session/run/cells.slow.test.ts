import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launch } from '../../../src/session/run/launch';
import { launchForAll, printed, resultsOf, runCell } from '../job-fixture';

const shared = launchForAll({ ranks: 3 });

test('cells and functions run in the selected ranks, and declarations of cells stay', async (context) => {
  const job = shared();

  await context.test(
    'variables, functions and closures of a cell are available to the next cell, in each rank its own',
    async () => {
      await runCell(job, 'let n = rank; let inc; inc = function inc() { n++; return n; }', 1);
      await runCell(job, 'inc(); n = n * 10', 2);
      assert.deepEqual(resultsOf(await runCell(job, 'inc()', 3)), { 0: '11', 1: '21', 2: '31' });
      assert.deepEqual(resultsOf(await runCell(job, 'inc()', 4, '1')), { 1: '22' });
      assert.deepEqual(resultsOf(await runCell(job, 'n', 5)), { 0: '11', 1: '22', 2: '31' });
    },
  );

  await context.test('a value whose code throws is shown, and a thrown one is described', async () => {
    const js = "new Proxy({}, { get() { throw new Error('px'); } })";
    assert.deepEqual(resultsOf(await runCell(job, js, 6, '1')), { 1: '{}' });
    await assert.rejects(
      runCell(job, `throw ${js.replace('({}', "(new Error('x')")}`, 6, '1'),
      /cannot be shown/,
    );
    assert.deepEqual(resultsOf(await runCell(job, 'rank', 6, '1')), { 1: '1' });
  });

  await context.test('globals that code deletes or replaces are put back, with a word', async () => {
    const events = await runCell(job, 'delete globalThis.Promise; globalThis.process = undefined; 1', 6, '2');
    const text = events.map((event) => (event.kind === 'stream' ? event.text : '')).join('');
    assert.match(text, /has deleted or replaced Promise, process, which/);
    await job.on('2').run(() => Reflect.deleteProperty(globalThis, 'JSON'));
    assert.deepEqual(resultsOf(await runCell(job, 'await null; JSON.stringify([rank])', 6, '2')), {
      2: "'[2]'",
    });
  });

  await context.test('variables may hide globals: put and get of such names', async () => {
    await job.put({ process: [5] });
    assert.deepEqual(await job.on('all').run((scope) => Reflect.get(scope, 'process')), [[5], [5], [5]]);
    assert.deepEqual(await job.get('process' as never), [[5], [5], [5]]);
  });

  await context.test('printed lines have rank and cell, and arrive before the last value', async () => {
    const events = await runCell(job, 'console.log("a", rank); console.error("b"); await 0; rank', 7, '1');
    assert.deepEqual(
      events.map((event) => [event.rank, event.cell, event.kind, event.kind === 'stream' ? event.name : '']),
      [
        [1, 7, 'stream', 'stdout'],
        [1, 7, 'stream', 'stderr'],
        [1, 7, 'result', ''],
      ],
    );
  });

  await context.test('printed lines arrive while the main thread is busy', async () => {
    const { seen, ended } = printed(job, 'console.log("x"); while (true);', 'x', 8);
    await seen;
    await job.interrupt();
    await ended;
  });

  await context.test('a thousand printed lines all arrive, in order, in few pieces', async () => {
    const events = await runCell(job, 'for (let i = 0; i < 1000; i++) console.log(i)', 9, '0');
    const text = events.map((event) => (event.kind === 'stream' ? event.text : '')).join('');
    assert.equal(text, Array.from({ length: 1000 }, (_, i) => `${i}\n`).join(''));
    assert.ok(events.length < 50, `${events.length} pieces`);
  });

  await context.test("output of a rank's child processes is shown too", async () => {
    const js =
      'require("node:child_process").execSync("echo from outside", { stdio: "inherit" }); await new Promise((r) => setTimeout(r, 50))';
    const events = await runCell(job, js, 10, '2');
    assert.ok(events.some((event) => event.kind === 'stream' && event.text.includes('from outside')));
  });

  await context.test('a tensor is shown with its values, also inside an object', async () => {
    const [printed, result] = await runCell(
      job,
      'const x = tf.tensor1d([1, 2.5]); console.log({ x }); x',
      12,
      '0',
    );
    const text = 'float32[2]\n    [1, 2.5]';
    assert.equal(printed?.kind === 'stream' && printed.text, `{\n  x: ${text.replace('\n', '\n  ')}\n}\n`);
    assert.equal(result?.kind === 'result' && result.bundle['text/plain'], text);
  });

  await context.test(
    'meshes and pending work print as one line; an unknown reduction is refused',
    async () => {
      const [mesh] = Object.values(resultsOf(await runCell(job, 'mesh', 14, '2')));
      assert.equal(mesh, 'mesh dp(3), this rank at [2]');
      const [work] = Object.values(
        resultsOf(await runCell(job, 'dist.allReduce(tf.scalar(1), { asyncOp: true })', 15)),
      );
      assert.match(String(work), /^Work \((pending|done)\); wait\(\) gives its result$/);
      await assert.rejects(runCell(job, 'dist.allReduce(tf.scalar(1), { op: "mean" })', 16), {
        code: 'CONFIG',
        message: /op is 'mean', but must be one of 'sum', 'avg', 'max'/,
      });
    },
  );

  await context.test('an unhandled rejection is reported in the cell that made it', async () => {
    const events = await runCell(job, 'void Promise.reject(new Error("floating")); 1', 13, '0');
    const texts = events.map((event) => (event.kind === 'stream' ? event.text : event.kind));
    assert.deepEqual(texts, ['result', 'Nobody caught: Error: floating\n']);
  });

  await context.test('a value with a display method is shown by it', async () => {
    const js = '({ [Symbol.for("Jupyter.display")]: () => ({ "text/html": "<b>" + rank + "</b>" }) })';
    const [event] = await runCell(job, js, 11, '1');
    assert.deepEqual(event?.kind === 'result' && event.bundle, { 'text/html': '<b>1</b>' });
  });

  await context.test(
    'a function gets the scope and its arguments, and its results are returned by rank',
    async () => {
      const sums = await job.on('0,2').run(
        ({ rank }, add: Float32Array, name: string) => {
          return { rank, name, sum: add.map((value) => value + rank) };
        },
        Float32Array.of(1, 2),
        'x',
      );
      assert.deepEqual(sums, [
        { rank: 0, name: 'x', sum: Float32Array.of(1, 2) },
        { rank: 2, name: 'x', sum: Float32Array.of(3, 4) },
      ]);
      const helpers = {
        async double(_: unknown, n: number) {
          return n * 2;
        },
      };
      assert.deepEqual(await job.on(1).run(helpers.double, 21), [42]);
    },
  );

  await context.test('the error of values that cannot be sent says what to send instead', async () => {
    await assert.rejects(
      job.on(0).run(
        (_, f) => f,
        () => 1,
      ),
      { code: 'CONFIG', message: /job\.on\(\)\.run: argument 1 is a function, which cannot be sent/ },
    );
    await assert.rejects(
      job.on(0).run(({ tf }) => tf.scalar(1)),
      { code: 'CONFIG', message: /arraySync/ },
    );
    await assert.rejects(
      job.on(0).run(() => ({ a: [1, 2, { f: () => 1 }] })),
      { code: 'CONFIG', message: /value\.a\[2\]\.f is a function, which cannot be sent/ },
    );
    await assert.rejects(job.on(0).run(Math.max as never), { code: 'CONFIG', message: /no source/ });
    const outside = 5;
    await assert.rejects(
      job.on(0).run(() => outside),
      { code: 'RANK_FAILED', message: /sent to ranks as source code/ },
    );
  });

  await context.test(
    'calls on different ranks run in parallel, calls on the same rank one after the other',
    async () => {
      const order: string[] = [];
      const slow = job
        .on(0)
        .run(() => new Promise((resolve) => setTimeout(resolve, 300)))
        .then(() => order.push('slow'));
      const next = job
        .on(0)
        .run(() => 1)
        .then(() => order.push('next'));
      const other = job
        .on(1)
        .run(() => 1)
        .then(() => order.push('other'));
      await Promise.all([slow, next, other]);
      assert.deepEqual(order, ['other', 'slow', 'next']);
    },
  );
});

test('two jobs of one process are independent', async (context) => {
  const first = shared();
  const second = await launch({ ranks: 1, blas: 'none' });
  context.after(() => second.shutdown());
  await runCell(first, 'let mine = 1');
  await assert.rejects(runCell(second, 'mine'), { code: 'RANK_FAILED' });
  await second.kill(0);
  await assert.rejects(
    second.on('all').run(() => 1),
    { code: 'RANK_DIED' },
  );
  assert.deepEqual(resultsOf(await runCell(first, 'dist.barrier(); mine')), { 0: '1', 1: '1', 2: '1' });
  await second.shutdown();
  assert.deepEqual(resultsOf(await runCell(first, 'dist.barrier(); mine')), { 0: '1', 1: '1', 2: '1' });
});

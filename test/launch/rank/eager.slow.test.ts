import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchForAll, runCell } from '../../session/job-fixture';

const shared = launchForAll({ ranks: 2 });

test('loss.backward() works in the cell that computed the loss, and only there', async () => {
  const job = shared();
  const cell = async (source: string) => runCell(job, source, ++cells);
  let cells = 0;
  await cell(
    'globalThis.net = new nn.Linear(2, 1); globalThis.x = tf.ones([4, 2]); net(x).dispose(); net(x).dispose()',
  );
  await cell('globalThis.before = [engine.memory.bytes, tf.memory().numTensors]');
  await cell(
    'for (let i = 0; i < 3; i++) tf.tidy(() => { const y = net(x); tf.square(y).mean().backward(); net.zeroGrad(); })',
  );
  await cell('globalThis.y = net(x)');
  const left = await job.on('all').run(({ engine, tf }) => {
    const { before } = globalThis as unknown as { before: [number, number] };
    return [engine.memory.bytes - before[0], tf.memory().numTensors - before[1]];
  });
  assert.deepEqual(
    left,
    [
      [16, 1],
      [16, 1],
    ],
    'only y is left',
  );
  await assert.rejects(
    cell('y.mean().backward()'),
    /no forward is recorded for this loss: it depends on a tensor \(float32 \[4, 1\]\).*cell that has ended.* in the same cell/,
  );
  await assert.rejects(
    cell('globalThis.head = new nn.Linear(1, 1); head(y).mean().backward()'),
    /no forward is recorded for this loss.* in the same cell/,
  );
  await cell('globalThis.penalty = tf.square(net.weight.tensor).mean()');
  await assert.rejects(
    cell('net(x).mean().add(penalty).backward()'),
    /no forward is recorded for this loss.* in the same cell/,
  );
  await cell(
    'head(y.detach()).mean().backward(); if (net.weight.grad !== null) throw new Error("y was data"); head.zeroGrad()',
  );
  await assert.rejects(
    cell('const l = net(x).mean(); l.backward(); l.backward()'),
    /loss\.backward\(\): .*a backward \(cell \d+, line 1\) has already run .* run backward once/,
  );
  await cell('net.zeroGrad()');
  await assert.rejects(
    cell('net(x).backward()'),
    /The loss is float32 \[4,1\]; gradients need a float32 scalar/,
  );
  await assert.rejects(cell('x.mean().backward()'), /no forward is recorded for this loss/);
  await assert.rejects(cell('net(x); tf.scalar(1).backward()'), /depends on no trainable parameter/);
  await cell('globalThis.ddp = DDP(net); ddp(x); tf.norm(net.weight.tensor).dataSync()');
  await assert.rejects(
    cell('tf.add(ddp(x).mean(), tf.norm(net.weight.tensor)).backward()'),
    /uses a parameter of unit '' outside of this unit/,
  );
  await cell(
    'net.zeroGrad(); const loss = ddp(x).mean(); loss.backward(); if (net.weight.state.segments()[0].grad === null) throw 1',
  );
  await cell(
    'globalThis.heap = []; ddp.train(); for (let i = 0; i < 250; i++) tf.tidy(() => { ddp(x); heap.push(engine.memory.bytes); })',
  );
  const isFlat = await job.on('all').run(() => {
    const { heap } = globalThis as unknown as { heap: number[] };
    return heap.at(-1) === heap[1];
  });
  assert.deepEqual(isFlat, [true, true], 'disposed results keep no activations');
  const warned = async (source: string) =>
    JSON.stringify(await cell(source)).includes('called 200 times in this cell without backward');
  assert.equal(await warned('for (let i = 0; i < 199; i++) ddp(x); await 0'), false);
  assert.equal(await warned('for (let i = 0; i < 201; i++) ddp(x); await 0'), true);
});

test('an evaluation stores no activations, and its results may be data of a later loss', async () => {
  const job = shared();
  const peaks = await job.on('all').run(({ nn, tf, engine, optim }) => {
    const net = new nn.Sequential(new nn.Linear(8, 64), new nn.Tanh(), new nn.Linear(64, 8)).eval();
    const x = tf.ones([32, 8]);
    const held = (): number => {
      const before = engine.memory.bytes;
      const y = net.apply(x);
      const bytes = engine.memory.bytes - before;
      y.dispose();
      return bytes;
    };
    held();
    const evaluated = held();
    net.train();
    const trained = held();
    net.eval();
    const student = new nn.Linear(8, 8);
    tf.square(tf.sub(student.apply(x), net.apply(x).detach()))
      .mean()
      .backward();
    const grads = [...net.parameters(), ...student.parameters()].map(({ grad }) => grad !== null);
    optim.sgd(student, { lr: 1 }).step();
    return { evaluated, trained, grads };
  });
  for (const { evaluated, trained, grads } of peaks) {
    assert.equal(evaluated, 32 * 8 * 4, 'only the result');
    assert.ok(trained > evaluated);
    assert.deepEqual(grads, [false, false, false, false, true, true]);
  }
});

test('a forward in evaluation mode is refused if what it read changes before backward', async () => {
  const job = shared();
  const setup = `
    const net = new nn.Sequential(new nn.Linear(2, 3), new nn.BatchNorm1d(3)).eval();
    const head = new nn.Linear(3, 1);
    const x = tf.tensor2d([1, 2, 3, 4, 5, 7], [3, 2]);
    const y = net(x);`;
  await assert.rejects(
    runCell(
      job,
      `{ ${setup} optim.sgd(net, { lr: 1 }); net.loadStateDict(net.stateDict()); head(y).mean().backward(); }`,
      50,
    ),
    /the parameter 0\.weight was modified/,
  );
  await assert.rejects(
    runCell(job, `{ ${setup} net.train(); net(x); net.eval(); head(y).mean().backward(); }`, 51),
    /The second forward of .* must compute the same values/s,
  );
});

/** Bodies of loops on a model of 8 inputs and outputs and 32 rows, and the bytes of the results that each turn leaves. */
const LOOPS: Readonly<Record<string, readonly [body: string, bytes: number]>> = {
  'a step': ['', 0],
  'a step and a forward that nobody uses': ['const unused = f(x);', 1024],
  'a step and an evaluation': ['f.eval(); const y = f(x); f.train();', 1024],
  'a step beside a gradient penalty without a step': [
    'tf.tidy(() => { tf.grad((at) => f.children.get("0")(at).sum())(x); });',
    0,
  ],
  'a step beside a generator': ['const z = g(x); const p = tf.tidy(() => tf.square(g(x)).mean());', 1028],
};

test('a loop of steps in a cell stores only the results that it leaves', async () => {
  const job = shared();
  for (const wrap of ['', 'DDP(f);', 'fullyShard(f);']) {
    for (const [name, [body, bytes]] of Object.entries(LOOPS)) {
      if (wrap !== '' && name.includes('penalty')) continue; // a unit refuses tf.grad
      const source = `{
        const f = new nn.Sequential(new nn.Linear(8, 64), new nn.Tanh(), new nn.Linear(64, 8));
        const g = new nn.Linear(8, 8);
        ${wrap}
        const opt = optim.adamW(f, { lr: 0.01 });
        const optG = optim.sgd(g, { lr: 0.01 });
        const x = tf.ones([32, 8]);
        globalThis.heap = [];
        for (let i = 0; i < 12; i++) {
          tf.tidy(() => { tf.square(f(x)).mean().backward(); });
          ${body}
          tf.tidy(() => { tf.square(g(x)).mean().backward(); });
          for (const o of [opt, optG]) { o.step(); o.zeroGrad(); }
          heap.push(engine.memory.bytes);
        }
      }`;
      await runCell(job, source, 60);
      const growths = await job.on('all').run(() => {
        const { heap } = globalThis as unknown as { heap: number[] };
        return ((heap.at(-1) ?? 0) - (heap[1] ?? 0)) / 10;
      });
      assert.deepEqual(growths, [bytes, bytes], `${name} ${wrap}`);
    }
  }
});

test('gradients() says once that it reads the result of a forward outside as data', async () => {
  const job = shared();
  const setup = 'const [f, h] = [new nn.Linear(2, 3), new nn.Linear(3, 1)]; const x = tf.ones([4, 2]);';
  const warned = async (js: string, cell: number): Promise<number> =>
    (await runCell(job, `{ ${setup} ${js} }`, cell)).filter(
      (event) => event.kind === 'stream' && event.text.includes('so it counts as data'),
    ).length;
  assert.equal(await warned('const y = f(x).detach(); gradients(() => h(y).mean()).backward();', 70), 0);
  assert.equal(await warned('gradients(() => h(f(x)).mean()).backward();', 71), 0);
  const outside = 'const y = f(x); gradients(() => h(y).mean()).backward();';
  assert.equal(await warned(outside, 72), 2, 'once on each of two ranks');
  assert.equal(await warned(outside, 73), 0);
});

test('gradients() refuses a backward whose parameters an optimizer has changed since forward', async () => {
  const job = shared();
  for (const wrap of [
    '',
    'DDP(f);',
    'for (const name of [0, 2]) fullyShard(f.children.get(String(name))); fullyShard(f);',
    'FSDP(f);',
  ]) {
    const source = `{
      const f = new nn.Sequential(new nn.Linear(2, 3), new nn.Tanh(), new nn.Linear(3, 1));
      ${wrap}
      const opt = optim.sgd(f, { lr: 0.1 });
      const x = tf.ones([4, 2]);
      const first = gradients(() => f.apply(x).mean());
      const second = gradients(() => f.apply(x).mean());
      first.backward();
      opt.step();
      second.backward();
    }`;
    await assert.rejects(runCell(job, source, 80), /the parameter .*weight was modified/, wrap);
  }
});

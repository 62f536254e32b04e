import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchForAll, runCell } from '../job-fixture';

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
    /no forward is recorded for this loss.* in the same cell/,
  );
  await assert.rejects(
    cell('const l = net(x).mean(); l.backward(); l.backward()'),
    /loss\.backward\(\): .* run backward once/,
  );
  await assert.rejects(
    cell('net(x).backward()'),
    /The loss is float32 \[4,1\]; gradients need a float32 scalar/,
  );
  await assert.rejects(cell('net.eval(); net(x).mean().backward()'), /in training mode/);
  await assert.rejects(
    cell('net.train(); net(x); tf.scalar(1).backward()'),
    /depends on no trainable parameter/,
  );
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

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Mystery } from '../../../src/launch/control/mystery';
import { parsePointText } from '../../../src/launch/control/point-text';
import { launchForAll } from '../job-fixture';
import { configOf } from './small-config';

const job = launchForAll({ ranks: 4 });

/** How an event's text begins for each kind of point. */
const EVENTS: Readonly<Record<string, RegExp>> = {
  unshard: /^allGather of /,
  allGather: /^allGather of /,
  reduceScatter: /^reduceScatter of /,
  backward: /^backward of /,
  optimizer: /^optimizer$/,
  data: /^data$/,
  // DDP reduces all gradients in one bucket, which has the name of its first module.
  allReduce: /^allReduce of ln_f \(#\d+\)$/,
};

for (let number = 1; number <= 12; number++) {
  test(`parity names rank, point and parameter of mystery ${number}`, async () => {
    const sealed = new Mystery(number);
    const { rank, at, do: kind } = sealed.reveal();
    const faulty = await job().train(configOf(sealed.strategy), { faults: sealed });
    const sound = await job().train(configOf(sealed.strategy));
    const { event, isEqual } = await sound.parity(faulty, { steps: 2 });
    assert.equal(isEqual, false);
    assert.ok(event !== null);
    assert.deepEqual(event.ranks, [rank], event.text);
    const { name = '', layer } = parsePointText(at);
    assert.match(event.event, EVENTS[name] ?? /^$/);
    if (layer !== undefined) assert.match(event.event, new RegExp(`blocks\\.${layer}\\b`));
    assert.match(event.parameter ?? '', /\.(weight|bias)$/);
    assert.equal((event.relative ?? 0) > 0 || kind === 'nan', true, event.text);
    assert.equal(sealed.solve({ rank, at, do: kind }).isRight, true);
    // A silent mystery trains: its loss is finite and falls.
    const [first = 0, second = 0] = faulty.losses;
    assert.equal(second < first, kind !== 'nan');
    await Promise.all([faulty.dispose(), sound.dispose()]);
  });
}

test('the replica check names the odd rank and the event without a second run', async () => {
  for (const [number, event, from] of [
    [2, /^allGather of blocks\.2 \(#\d+\)$/, 'ranks 0, 2, 3'],
    [3, /^optimizer$/, 'ranks 0-2'],
    [12, /^optimizer$/, 'ranks 0, 1, 3'],
  ] as const) {
    const sealed = new Mystery(number);
    const run = await job().train(configOf(sealed.strategy), { faults: sealed });
    if (number === 2) await run.step();
    const { first } = await run.checkReplicas();
    assert.deepEqual(first?.ranks, [sealed.reveal().rank]);
    assert.match(first?.event ?? '', event);
    assert.ok(first?.text.includes(`the first to differ from ${from}, in `), first?.text);
    await run.dispose();
  }
});

test('runs without faults have no differing event, and neither have runs of different strategies', async () => {
  const [one, same, whole] = [
    await job().train(configOf('FULL_SHARD')),
    await job().train(configOf('FULL_SHARD'), { faults: [] }),
    await job().train(configOf('NO_SHARD')),
  ];
  assert.equal((await one.parity(same, { steps: 1 })).event, null);
  assert.deepEqual([...one.losses], [...same.losses]);
  assert.equal((await whole.checkReplicas()).first, null);
  const { event, isEqual } = await one.parity(whole, { steps: 1 });
  assert.deepEqual([event, isEqual], [null, true]);
  await Promise.all([one, same, whole].map((run) => run.dispose()));
});

test('under different strategies, the values that both runs make are compared', async () => {
  const whole = await job().train(configOf('NO_SHARD'));
  const faults = [{ rank: 2, at: 'backward layer 1', do: 'double' }] as const;
  const sharded = await job().train(configOf('FULL_SHARD'), { faults });
  const { event } = await sharded.parity(whole, { steps: 1 });
  assert.deepEqual([event?.ranks, event?.event], [[2], 'backward of blocks.1']);
  assert.match(event?.text ?? '', /compared are values that both make/);
  await Promise.all([whole.dispose(), sharded.dispose()]);
});

test('a mystery keeps its secret until it is revealed', async () => {
  const sealed = new Mystery(4);
  const { rank, at, do: kind } = sealed.reveal();
  assert.equal(JSON.stringify(sealed), '{"number":4,"strategy":"FULL_SHARD"}');
  const solved = sealed.solve({ rank, at, do: 'skip' });
  assert.deepEqual(
    [solved.isRight, solved.text],
    [false, 'not right: what it does; right: the rank and the point'],
  );
  assert.equal(sealed.solve({ rank, at: 'reduceScatter blocks.0', do: kind }).isRight, true);
  assert.equal(sealed.solve({ rank, at: 'reduceScatter blocks.1', do: kind }).isRight, false);
  assert.throws(() => new Mystery(13), { code: 'CONFIG', message: /mysteries 1 to 12, not 13/ });
  const run = await job().train(configOf('FULL_SHARD'), { faults: sealed });
  assert.equal((await run.step()).planted, 'a mystery is planted');
  await run.dispose();
});

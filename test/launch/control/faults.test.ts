import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkedFaults } from '../../../src/launch/control/faults';
import { Mystery } from '../../../src/launch/control/mystery';
import { plantedIn } from '../../../src/launch/control/planted';

test('a list of faults is checked and gets its defaults', () => {
  assert.deepEqual(checkedFaults([{ rank: 2, at: 'reduceScatter layer 3', do: 'skip' }], 4), [
    { rank: 2, at: 'reduceScatter layer 3', do: 'skip', seconds: 0.2 },
  ]);
  assert.deepEqual(checkedFaults(undefined, 4), []);
  assert.deepEqual(plantedIn([], 4, true), { faults: [], note: null });
  assert.equal(plantedIn(new Mystery(1), 4, false).note, 'a mystery is planted');
  assert.equal(plantedIn([{ rank: 0, at: 'loss', do: 'kill' }], 4, false).note, '1 fault planted');
});

test('a mystery says which parts of an answer are right, and that NaN is no guess yet', () => {
  let numReveals = 0;
  const sealed = new Mystery(1, () => numReveals++);
  const said = (rank: number, at: string, kind: 'skip' | 'nan'): string =>
    sealed.solve({ rank, at, do: kind }).text;
  assert.match(said(Number.NaN, 'forward', 'nan'), /^no guess yet: replace NaN by a rank/);
  assert.equal(said(0, 'forward', 'nan'), 'not right: the rank, the point, what it does');
  assert.equal(said(2, 'forward', 'skip'), 'not right: the point; right: the rank and what it does');
  const chinese = new Mystery(1, undefined, 'zh');
  const saidInChinese = (rank: number, at: string, kind: 'nan' | 'skip'): string =>
    chinese.solve({ rank, at, do: kind }).text;
  assert.match(saidInChinese(Number.NaN, 'forward', 'nan'), /^还没有猜：/);
  assert.equal(saidInChinese(0, 'forward', 'nan'), '还不对：rank、点（at）、做法（do）');
  assert.equal(saidInChinese(2, 'forward', 'skip'), '还不对：点（at）；已经对了：rank、做法（do）');
  assert.match(saidInChinese(2, 'reduceScatter layer 1', 'skip'), /^正确：rank 2/);
  assert.equal(said(2, 'reduceScatter blocks.1', 'skip'), "right: rank 2 at 'reduceScatter layer 1': 'skip'");
  assert.equal(numReveals, 0);
  assert.equal(sealed.reveal().rank, 2);
  assert.equal(numReveals, 1);
  assert.equal(JSON.stringify(sealed), '{"number":1,"strategy":"FULL_SHARD"}');
});

test('a mystery refuses a rank or a kind that does not exist', () => {
  const solve = (rank: unknown, kind: unknown) => (): unknown =>
    new Mystery(1).solve({ rank: rank as number, at: 'forward', do: kind as 'nan' });
  for (const rank of [7, 4, -1, 1.5, '2', '', null])
    assert.throws(solve(rank, 'nan'), /rank must be one of 0 to 3, not /, `${rank}`);
  for (const kind of ['skp', '', undefined, 3])
    assert.throws(solve(2, kind), /do must be one of 'skip', .*'kill', not /, `${kind}`);
});

test('wrong faults are refused with what is right', () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    ['skip', /faults must be a list, such as \[\{ rank: 2/],
    [[{ rank: 4, at: 'optimizer', do: 'skip' }], /names rank 4, but the training has ranks 0 to 3/],
    [[{ rank: 1.5, at: 'optimizer', do: 'skip' }], /names rank 1\.5/],
    [[{ at: 'optimizer', do: 'skip' }], /faults\[0\].*rank/s],
    [[{ rank: 0, at: 'optimizer', do: 'skp' }], /faults\[0\].*do.*'skip'/s],
    [
      [{ rank: 0, at: 'optimiser', do: 'skip' }],
      /'optimiser', which names no point \(did you mean 'optimizer'\?\)\. /,
    ],
    [[{ rank: 0, at: '#5', do: 'skip' }], /names no kind of point; begin with one/],
    [
      [{ rank: 0, at: 'forward', do: 'double' }],
      /'double' has no meaning at forward; faults there are 'nan' and 'kill'/,
    ],
    [[{ rank: 0, at: 'optimizer', do: 'slow link' }], /'slow link' has no meaning at optimizer/],
    [[{ rank: 0, at: 'send', do: 'slow link', seconds: 0 }], /seconds/],
    [[{ rank: 0, at: 'loss', do: 'kill', when: 1 }], /when/],
  ];
  for (const [faults, message] of cases)
    assert.throws(() => checkedFaults(faults, 4), { code: 'CONFIG', message }, JSON.stringify(faults));
});

test("engine 'torch' refuses faults in one sentence", () => {
  assert.throws(() => plantedIn([{ rank: 0, at: 'loss', do: 'kill' }], 4, true), {
    code: 'CONFIG',
    message: /faults act in ranks of shardlab's own engine/,
  });
});

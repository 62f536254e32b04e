import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exerciseOf } from '../../../src/session/exercises/exercise';
import { judge } from '../../../src/session/exercises/judge';

function outcomeOf(id: string, value: unknown): string {
  const exercise = exerciseOf(id);
  assert.ok(exercise !== undefined, id);
  return judge(exercise, value).outcome;
}

function reasonOf(id: string, value: unknown): string | undefined {
  const exercise = exerciseOf(id);
  assert.ok(exercise !== undefined, id);
  return judge(exercise, value).reason?.en;
}

test('a number is right in any way in which people write it', () => {
  for (const value of [
    6382080,
    6382080n,
    '6382080',
    '6,382,080',
    '6_382_080',
    '6.38e6',
    '6.38208 MB',
    '6382.08 kB',
    '6.0864 MiB',
  ])
    assert.equal(outcomeOf('02.bytes', value), 'right', `${value}`);
  for (const value of [1.5, '1.5', ' 1.5 ', '3/2', '1,5', '150%'])
    assert.equal(outcomeOf('00.mean', value), 'right', `${value}`);
  for (const value of [25, '25%', '25 percent', '25 ％'])
    assert.equal(outcomeOf('05.share', value), 'right', `${value}`);
  for (const value of [10, '10 GPUs', '10 cards', '10 张', '１０'])
    assert.equal(outcomeOf('01.world', value), 'right', `${value}`);
  for (const value of [4, 4.07, '4 bytes', 'float32', 'FP32'])
    assert.equal(outcomeOf('05.bytes', value), 'right', `${value}`);
  for (const value of ['14 MB', '13.998 MB', 15e6, '14000 kB'])
    assert.equal(outcomeOf('03.fit', value), 'right', `${value}`);
});

test('a number may have its unit before it', () => {
  for (const value of ['rank 1', 'Rank 1', 'rank: 1', 'rank #1', 'ranks 1', '1'])
    assert.equal(outcomeOf('09.mystery', value), 'right', value);
  assert.equal(outcomeOf('09.repeated', 'steps 3'), 'right');
  assert.match(reasonOf('09.mystery', 'rank 3') ?? '', /^3 is the block/);
  for (const value of ['step 1', 'rank', 'rank one']) assert.equal(outcomeOf('09.mystery', value), 'unclear');
});

test('a category that grows by little is not the one that grows most', () => {
  assert.match(reasonOf('00.cause', 'batch') ?? '', /^True, it doubles too, but from 2 kB to 4 kB/);
  for (const value of ['temp', 'temporaries', '临时缓冲区', '批次'])
    assert.match(reasonOf('00.cause', value) ?? '', /^True/, value);
});

test('one microbatch of two sequences has another peak than two of them', () => {
  for (const value of [0.736, 0.74, '74%']) assert.equal(outcomeOf('01.halved', value), 'right', `${value}`);
  assert.match(reasonOf('01.halved', 0.6769) ?? '', /^That is the peak of `batch: 2` alone/);
  assert.match(reasonOf('01.halved', 0.618) ?? '', /^Train two steps/);
});

test('a word is right in singular and plural, in capitals, with hyphens, quotes and articles', () => {
  for (const value of [
    'activation',
    'activations',
    'Activations',
    ' "Activations" ',
    'the activations',
    '激活值',
  ])
    assert.equal(outcomeOf('00.cause', value), 'right', value);
  for (const value of ['column', 'Columns', 'the column half', 'column-half'])
    assert.equal(outcomeOf('04.backward', value), 'right', value);
  for (const value of ['more expensive', 'More-Expensive', 'more_expensive'])
    assert.equal(outcomeOf('07.twice', value), 'right', value);
  for (const value of ['machine_rank', 'machine-rank', 'Machine rank'])
    assert.equal(outcomeOf('10.ignored', value), 'right', value);
  for (const value of ['optim_state_dict()', 'FSDP.optim_state_dict'])
    assert.equal(outcomeOf('12.hang', value), 'right', value);
});

test('two words are right in any order and with any separator', () => {
  for (const value of [
    ...['num_machines, num_processes', 'num_processes,num_machines', 'num_machines and num_processes'],
    ...['num_machines num_processes', 'num_machines、num_processes', ['num_processes', 'num_machines']],
  ])
    assert.equal(outcomeOf('10.keys', value), 'right', `${value}`);
  assert.equal(outcomeOf('10.keys', 'num_machines'), 'wrong');
  assert.equal(outcomeOf('10.keys', 'num_machines, num_processes, machine_rank'), 'wrong');
});

test('every rank must be right', () => {
  assert.equal(outcomeOf('00.mean', [1.5, 1.5, [1.5, '1.5']]), 'right');
  assert.equal(outcomeOf('00.mean', [1.5, 0]), 'wrong');
  assert.match(reasonOf('00.mean', [1.5, 0]) ?? '', /^Some ranks/);
  assert.match(reasonOf('00.mean', [6, 6]) ?? '', /^6 is the sum/);
  assert.equal(outcomeOf('00.mean', [1.5, Number.NaN]), 'wrong');
});

test('no answer is skipped, and a value of another kind is unclear', () => {
  for (const nothing of [undefined, null, Number.NaN, '', ' ', [Number.NaN, undefined]])
    assert.equal(outcomeOf('00.mean', nothing), 'skipped');
  for (const other of [
    [],
    {},
    true,
    'many',
    Number.POSITIVE_INFINITY,
    () => 1,
    Symbol('a'),
    '1e999',
    '10 MB',
    [[[[[1]]]]],
  ])
    assert.equal(outcomeOf('01.world', other), 'unclear', String(typeof other));
  for (const other of [3, {}, 'perhaps']) assert.equal(outcomeOf('07.twice', other), 'unclear', `${other}`);
  const circular: unknown[] = [];
  circular.push(circular, 1n);
  assert.notEqual(outcomeOf('00.mean', circular), 'right');
});

test('an offered word that is wrong is a try', () => {
  assert.match(reasonOf('07.twice', 'same') ?? '', /exactly half the time/);
  assert.match(reasonOf('07.twice', 'The Same') ?? '', /exactly half the time/);
  assert.match(reasonOf('04.backward', 'rows') ?? '', /in forward/);
});

test('an unknown wrong number is too high or too low, by no exact factor', () => {
  assert.equal(reasonOf('01.world', 11), 'It is too high.');
  assert.equal(reasonOf('01.world', 7), 'It is too low.');
  assert.equal(reasonOf('01.world', 98), 'It is more than twice too high.');
  assert.equal(reasonOf('01.world', 101), 'It is more than ten times too high.');
  assert.equal(reasonOf('01.world', 1), 'It is less than half of the answer.');
  assert.equal(reasonOf('02.bytes', 1000), 'It is less than a tenth of the answer.');
  assert.equal(reasonOf('03.fit', 17e6), 'It is too high.');
  assert.equal(reasonOf('15.merged', -1), 'It is too low.');
  assert.equal(reasonOf('10.differ', 30), 'It is too high.', 'a factor would say which small number it is');
  assert.equal(reasonOf('03.fit', '18.3 MB')?.includes('18.3 MB'), true);
});

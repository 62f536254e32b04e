import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inChinese, showsChinese } from '../../../src/core';
import { filled, messagePattern, valuesOf } from '../../../src/core/chinese/message-pattern';

function valuesIn(english: string, line: string, whole = false): string[] | undefined {
  return valuesOf(messagePattern(english, ''), line, whole);
}

test('SHARDLAB_LANG decides whether errors are shown in Chinese, and otherwise the locale does', () => {
  assert.equal(showsChinese({}), false);
  assert.equal(showsChinese({ LANG: 'en_US.UTF-8' }), false);
  assert.equal(showsChinese({ LANG: 'zh_CN.UTF-8' }), true);
  assert.equal(showsChinese({ LANG: 'zh_CN.UTF-8', LC_ALL: 'C.UTF-8' }), false);
  assert.equal(showsChinese({ LANG: 'zh_CN.UTF-8', SHARDLAB_LANG: 'en' }), false);
  assert.equal(showsChinese({ LANG: 'C', SHARDLAB_LANG: 'zh' }), true);
  assert.equal(showsChinese({ LC_ALL: '', LC_MESSAGES: 'zh_TW.UTF-8' }), true);
});

test('a pattern finds the values of its holes', () => {
  assert.deepEqual(valuesIn('tp ({0}) must divide {1} heads', 'tp (3) must divide 32 heads'), ['3', '32']);
  assert.deepEqual(valuesIn('{0} is not {1}.', 'a.b is not c. Give d.'), ['a.b', 'c']);
  const ended = (line: string): string[] | undefined => valuesIn('{0} ended{1}{2}; launch again', line);
  assert.deepEqual(ended('rank 1 ended; launch again'), ['rank 1', '', '']);
  assert.deepEqual(ended('rank 1 ended; full; launch again'), ['rank 1', '; full', '']);
  assert.deepEqual(ended('rank 1 ended; full; it said: boo; launch again'), [
    'rank 1',
    '; full',
    '; it said: boo',
  ]);
  assert.equal(valuesIn('{0} is not {1}.', 'a is not c.d'), undefined);
  assert.equal(valuesIn('no {0}', 'no', true), undefined);
});

test('a pattern that must describe the whole line refuses a longer one', () => {
  assert.deepEqual(valuesIn('a number above {0}', 'a number above 0', true), ['0']);
  assert.deepEqual(valuesIn('no layout', 'no layout; give one'), []);
  assert.equal(valuesIn('no layout', 'no layout; give one', true), undefined);
  assert.equal(valuesIn('no layout', 'no layouts'), undefined);
});

test('values are put into a translation without spaces between Chinese characters', () => {
  assert.equal(filled('应为 {0}，得到 {1}', ['一个数', '"fast"']), '应为一个数，得到 "fast"');
  assert.equal(filled('共 {1} 个 {0}', ['rank', '4']), '共 4 个 rank');
  assert.equal(filled('{0} 退出了 {1}', ['rank 1', '; boo']), 'rank 1 退出了; boo');
});

test('a message is translated up to its first sentence, with its values', () => {
  assert.equal(
    inChinese("tp (3) must divide the model's 32 heads", 'CONFIG'),
    'tp（3）必须能整除模型的 32 个注意力头',
  );
  assert.equal(
    inChinese('A host array of float32 [2,3] was used after its dispose().', 'CLOSED'),
    'float32 [2,3] 的主机数组在 dispose() 之后又被使用。',
  );
});

test('units in holes are in Chinese', () => {
  for (const [message, expected] of [
    ['x: expected a list of at least 3 values, got []', 'x：应为长度不小于 3 个值的列表，实际为 []'],
    ['x: expected a text of 3 characters', 'x：应为长度为 3 个字符的文本'],
    ...[
      ['pairs', '对'],
      ['rows', '行'],
      ['examples', '个样本'],
      ['tokens', '个 token '],
    ].map(([unit, chinese]) => [
      `data.validation: a share of 0.5 of 1 ${unit} is less than one of them; give a larger share, files for validation, or null`,
      `data.validation：按比例 0.5 从 1 ${chinese}中取，不足一个；增大这个比例，或者给出用于验证的文件，或者写 null`,
    ]),
  ] as const)
    assert.equal(inChinese(message ?? '', 'CONFIG'), expected);
  assert.equal(inChinese('x: expected a list, got rows', 'CONFIG'), 'x：应为列表，实际为 rows');
});

test('the ranks before a message and the cell behind it are kept', () => {
  assert.equal(
    inChinese(
      '[ranks 0, 2 of 4] optim.getScheduler: WarmupCosineLR needs maxSteps, the step at which the schedule ends (cell 8, line 2)',
      'CONFIG',
    ),
    '[ranks 0, 2 of 4] optim.getScheduler：WarmupCosineLR 需要 maxSteps，即学习率调度结束的那一步 (cell 8, line 2)',
  );
});

test('several ranks may replace the one rank that a message names', () => {
  const [one, several] = ['[rank 1/4]', '[ranks 0, 2 of 4]'].map((ranks) =>
    inChinese(`${ranks} all-reduce got its own rank as dst; name another rank of the group`, 'CONFIG'),
  );
  assert.equal(one?.slice('[rank 1/4]'.length), several?.slice('[ranks 0, 2 of 4]'.length));
  assert.match(String(several), /^\[ranks 0, 2 of 4\] all-reduce .*\p{Script=Han}.* dst/u);
});

test('a list of what is wrong with a config is translated line by line', () => {
  const message = 'optimizer.lr: expected a number, got "fast"\nmodel: is missing\n  at x.ts:1';
  assert.equal(inChinese(message, 'CONFIG'), 'optimizer.lr：应为数，实际为 "fast"\nmodel：缺失');
});

test('an unknown message is translated by its code, and a name without a code is not', () => {
  assert.equal(
    inChinese('[rank 1/4] TypeError: boo (cell 8)', 'ShardlabError[RANK_FAILED]'),
    '[rank 1/4] rank 中的代码抛出了错误 (cell 8)',
  );
  assert.equal(inChinese('boo', 'SHAPE'), '张量的形状或数据类型不符');
  assert.equal(inChinese('boo', 'KernelDied'), undefined);
  assert.equal(inChinese('', 'CONFIG'), '某项设置有误、未知或互相矛盾');
});

test('a message of any form is answered within a second', () => {
  const hostile = [
    '{0}',
    '(',
    ': ',
    '; ',
    'a: '.repeat(20_000),
    `${'x, got y; '.repeat(2_000)}`,
    '\n'.repeat(20_000),
    "'".repeat(20_000),
  ];
  const start = performance.now();
  for (const message of hostile) assert.ok(inChinese(message, 'CONFIG') !== undefined);
  assert.ok(performance.now() - start < 1000);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { languages } from '../../../src/core';
import { filled, messagePattern, valuesOf } from '../../../src/core/chinese/message-pattern';

const { inChinese } = languages;

function valuesIn(english: string, line: string, whole = false): string[] | undefined {
  return valuesOf(messagePattern(english, ''), line, whole);
}

test('SHARDLAB_LANG decides whether errors are shown in Chinese, and otherwise the locale does', () => {
  assert.equal(languages.showsChinese({}), false);
  assert.equal(languages.showsChinese({ LANG: 'en_US.UTF-8' }), false);
  assert.equal(languages.showsChinese({ LANG: 'zh_CN.UTF-8' }), true);
  assert.equal(languages.showsChinese({ LANG: 'zh_CN.UTF-8', LC_ALL: 'C.UTF-8' }), false);
  assert.equal(languages.showsChinese({ LANG: 'zh_CN.UTF-8', SHARDLAB_LANG: 'en' }), false);
  assert.equal(languages.showsChinese({ LANG: 'C', SHARDLAB_LANG: 'zh' }), true);
  assert.equal(languages.showsChinese({ LC_ALL: '', LC_MESSAGES: 'zh_TW.UTF-8' }), true);
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

test('no Chinese line of a frequent error has a part of an English sentence', () => {
  for (const [message, expected] of [
    [
      'job.on().run: value is a tensor [1], which cannot be sent; send its values: x.arraySync() or x.dataSync()',
      'job.on().run：value 是张量 [1]，无法发送；改为发送它的值：x.arraySync() 或 x.dataSync()',
    ],
    [
      'this run has taken no step yet, so there is nothing to draw; await run.step() first',
      '这次训练还没有走过任何一步，没有可画的内容；先 await run.step()',
    ],
    [
      'launch: ranks is 0, but must be a whole number from 1 to 64 per host',
      'launch：ranks 是 0，但必须是每台主机 1 到 64 的整数',
    ],
    [
      'launch({ … }) has no argument rank; did you mean ranks?',
      'launch({ … }) 没有参数 rank；是不是 ranks？',
    ],
    [
      'parallel.strategy: expected the name of a strategy, got "FULLSHARD"; did you mean "FULL_SHARD"?',
      'parallel.strategy：应为策略的名字，实际为 "FULLSHARD"；是不是 "FULL_SHARD"？',
    ],
    [
      'model: expected one of "tiny"|"gpt2", got "tinyy"; did you mean "tiny"?',
      'model：应为 "tiny"|"gpt2" 之一，实际为 "tinyy"；是不是 "tiny"？',
    ],
    [
      'batch: expected a number, got "8"; write the rows of a rank and pass; accumulation is the number of passes',
      'batch：应为数，实际为 "8"；写一个 rank 每一遍的行数；accumulation 是遍数',
    ],
    ['batch: expected a number, got "8"; write no words that a table has', 'batch：应为数，实际为 "8"'],
    [
      'batchSize: unknown key; write batch, per data-parallel rank and pass',
      'batchSize：未知的键；改写为 batch（每个数据并行 rank 每一遍的行数）',
    ],
    [
      'this run halts in a walk; end it with await walk.live() before stepping',
      '这次训练停在逐点执行中；在走步之前用 await walk.live() 结束它',
    ],
    [
      'compare: the first argument is a Run, but must be an object such as { name: value }',
      'compare：第一个参数是一个 Run，但必须是形如 { name: value } 的对象',
    ],
    [
      'run.parity needs runs after the same step, but this run has taken 2 steps and the other run 0; make both runs again, or save one and load it into the other: run.save(path), other.load(path)',
      'run.parity 要求两次训练处于同一步之后，但这次训练已走 2 步，另一次已走 0；重新创建两次训练，或者保存其中一次并加载到另一次：run.save(path)、other.load(path)',
    ],
    [
      "the point 'optimzer' has the word 'optimzer', which names no point (did you mean 'optimizer'?). Write more.",
      "点 'optimzer'含有 'optimzer'，这不是任何点的名称（是否指 'optimizer'？）。",
    ],
  ] as const)
    assert.equal(inChinese(message, 'CONFIG'), expected);
});

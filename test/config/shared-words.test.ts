import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spelled } from '../../src/config/option-names';
import { PIPELINE_SCHEDULES } from '../../src/config/settings/pipeline';
import { FLOAT_WORDS } from '../../src/config/settings/precision';
import { STACKS } from '../../src/config/stacks';
import { STRATEGY_NAMES, STRATEGY_WORDS, strategyNamed } from '../../src/config/strategies';
import { RECOMPUTE } from '../../src/planner/layout';
import { layoutOf } from '../../src/planner/plan-input';
import { floatOf, strategyOf, strategyOfStage } from '../../src/programs/rows/values';
import { readText } from '../programs/read-files';
import { readSources } from '../project/sources';
import { layoutOfLine } from '../support/batch-lines';

// Facts of dialects and plans that config states once.

const GPT = { kind: 'llama', layers: 4, dim: 256, heads: 8, seq: 256, vocab: 512 } as const;

test('only config lists the frameworks, and no type of a dialect or plan repeats their list', () => {
  const union = new RegExp(STACKS.map((name) => `'${name}'`).join('\\s*[|,]\\s*'));
  const repeated = [...readSources('src/programs', 'src/planner')].filter(([, text]) => union.test(text));
  assert.deepEqual(
    repeated.map(([path]) => path),
    [],
  );
});

test('a name of unfused attention means the same in the place of a plan and in the settings of another program', () => {
  for (const name of ['eager', 'math', 'standard', 'disabled', 'local', 'unfused']) {
    const { place } = readText('a.yaml', `model_name_or_path: gpt2\nattn_implementation: ${name}\n`);
    assert.equal(place.attention, 'eager', name);
    assert.equal(layoutOf({ model: GPT, attention: name as 'unfused' }).attention, 'unfused', name);
  }
  for (const name of ['sdpa', 'flash_attention_2', 'flash_attention_3', 'xformers', 'flex_attention']) {
    const { place } = readText('a.yaml', `model_name_or_path: gpt2\nattn_implementation: ${name}\n`);
    assert.equal(place.attention, 'flash', name);
  }
});

test('every word for a strategy means the same in a config, a dialect and a batch line', () => {
  for (const [word, strategy] of Object.entries(STRATEGY_WORDS)) {
    assert.equal(strategyOf(word), strategy, word);
    assert.equal(layoutOfLine({ model: GPT, parallel: { strategy: word } }).strategy, strategy, word);
  }
  for (const name of STRATEGY_NAMES) assert.equal(STRATEGY_WORDS[spelled(name)], name);
  assert.deepEqual(
    [0, 1, 2, 3].map(strategyOfStage),
    ['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'].map(strategyNamed),
  );
});

test('every word for a dtype means the same in a dialect and in a batch line', () => {
  const short = { float32: 'fp32', bfloat16: 'bf16', float16: 'fp16' } as const;
  for (const [word, dtype] of Object.entries(FLOAT_WORDS)) {
    assert.equal(floatOf(word), dtype);
    assert.equal(layoutOfLine({ model: GPT, precision: word }).precision, short[dtype], word);
  }
});

test('batch lines know the schedules of pipelines and what configs run again', () => {
  const schedules = { gpipe: 'GPipe', '1f1b': '1F1B', interleaved: 'interleaved', zb: '1F1B' } as const;
  for (const schedule of PIPELINE_SCHEDULES) {
    for (const word of [schedule, schedule.toUpperCase()])
      assert.equal(
        layoutOfLine({ model: GPT, schedule: word, parallel: { pp: 2 } }).schedule,
        schedules[schedule],
      );
  }
  for (const recompute of RECOMPUTE)
    assert.equal(layoutOfLine({ model: GPT, recompute }).recompute, recompute);
});

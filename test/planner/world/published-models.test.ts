import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { modelNamed, PLANNED_NAMES } from '../../../src/config/model-names';
import { stateBytesOf } from '../../../src/planner/memory/state-bytes';
import { shapeOf } from '../../../src/planner/model-shape';
import { modelOf, shapeOfHub } from '../../../src/planner/models';
import { plannedInput } from '../../../src/planner/plan-input';
import { predict } from '../../../src/planner/predict';
import PUBLISHED_CONFIGS from '../../data/hub-configs.json';
import published from '../../data/published-models.json';
import { layoutOfLine } from '../../support/batch-lines';

/** How far a rounded count may be from the exact one. A nominal size names a model: 7B may mean 7.7 billion. */
const ROUNDED: Readonly<Record<string, number>> = {
  exact: 0,
  '4 digits': 1e-3,
  '3 digits': 0.01,
  '2 digits': 0.06,
  nominal: 0.18,
};

/** Published counts that differ for a reason that the row's note states: another head, another set of layers. */
const COUNTED_OTHERWISE = ['Llama-3.2-1B', 'Llama-3.2-3B'];

test('the parameters of 81 published models are counted to the last one', (context) => {
  assert.ok(published.rows.length >= 80);
  let exact = 0;
  for (const [name, count, precision, counted] of published.rows) {
    const { params } = shapeOf(modelOf(String(name)));
    assert.equal(params, counted, String(name));
    if (typeof count !== 'number' || COUNTED_OTHERWISE.includes(String(name))) continue;
    const tolerance = ROUNDED[String(precision)] ?? 0;
    assert.ok(Math.abs(params / count - 1) <= tolerance, `${name}: ${params} of ${count} (${precision})`);
    if (precision === 'exact') exact += 1;
  }
  context.diagnostic(`${exact} of them equal an exact published count`);
  assert.ok(exact >= 35);
  const names = published.rows.map(([name]) => String(name));
  assert.deepEqual(
    PLANNED_NAMES.filter((name) => !names.includes(name)),
    [],
  );
});

test('every published language model has a plan, whose model FLOP/s stay below the peak', () => {
  for (const name of PLANNED_NAMES) {
    const layout = layoutOfLine({
      model: name,
      gpus: 64,
      parallel: { strategy: 'FULL_SHARD' },
      recompute: 'full',
    });
    const { seconds, mfu, memory } = predict(layout);
    assert.ok(seconds.value > 0 && mfu > 0 && mfu < 0.8, `${name}: ${mfu}`);
    assert.ok(Number.isFinite(memory.peakBytes), name);
  }
});

test('states in float32 are within 2% of what accelerate estimate-memory prints for training with Adam', () => {
  // GiB. Source: Accelerate's model size estimator, as posted by its bot for HuggingFaceH4/zephyr-7b-alpha (Mistral 7B; the
  // estimate also counts the buffers of masks), and its guide's example bert-base-cased.
  const bert = shapeOfHub({ ...BERT, vocab_size: 28_996 }, 'bert-base-cased');
  for (const [model, published] of [
    ['Mistral-7B-v0.1', 109.96],
    [bert, 1.61],
  ] as const) {
    const layout = layoutOfLine({
      model,
      gpus: 1,
      precision: 'fp32',
      parallel: { strategy: 'NO_SHARD', stack: 'fsdp2' },
    });
    const { parameter, gradient, optimizer } = stateBytesOf(layout);
    const gib = ((parameter + gradient + optimizer) * layout.model.params) / 2 ** 30;
    assert.ok(Math.abs(gib / published - 1) < 0.02, `${layout.model.name}: ${gib} of ${published}`);
  }
});

const BERT = {
  model_type: 'bert',
  ...{ hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12, intermediate_size: 3072 },
  ...{ max_position_embeddings: 512, type_vocab_size: 2 },
};

test("a model's config.json or its folder is planned as the model of its name", (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'hub-'));
  context.after(() => rmSync(folder, { recursive: true }));
  const config = {
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
    hidden_size: 5120,
    num_hidden_layers: 64,
    num_attention_heads: 64,
    num_key_value_heads: 8,
    head_dim: 128,
    intermediate_size: 25_600,
    vocab_size: 151_936,
    max_position_embeddings: 40_960,
    tie_word_embeddings: false,
    torch_dtype: 'bfloat16',
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const path of [folder, join(folder, 'config.json')]) {
    const { layout } = plannedInput(path, { on: 'H20', gpus: 64 });
    assert.equal(layout.model.params, 32_762_123_264);
    assert.equal(layout.model.seq, 40_960);
  }
  const { layout } = plannedInput({ model: { like: folder, seq: 4096 }, gpus: 8 });
  assert.deepEqual([layout.model.kvHeads, layout.model.headDim, layout.model.seq], [8, 128, 4096]);
});

test('a family that is not known, and a config without a size, are refused by name', () => {
  assert.throws(
    () => shapeOfHub({ model_type: 'rwkv' }, 'x'),
    /x: model_type 'rwkv' is not known. Known: gpt2, /,
  );
  assert.throws(
    () => shapeOfHub({ model_type: 'llama' }, 'x'),
    /x: num_hidden_layers, hidden_size, .* are missing; write them into the config, because llama needs them/,
  );
  assert.throws(() => shapeOfHub({ model_type: 'llama', hidden_size: 1.5 }, 'x'), /x: hidden_size: /);
});

test('experts: only those that a token visits compute, all are stored, and expert parallelism divides them', () => {
  const at = (request: object) =>
    layoutOfLine({ model: 'Qwen3-30B-A3B', hardware: 'H100-80G', gpus: 16, ...request });
  const alone = predict(at({ parallel: { strategy: 'NO_SHARD' } }));
  const apart = predict(at({ parallel: { strategy: 'NO_SHARD', ep: 16 } }));
  // 128 experts in 48 layers of three matrices of 2048 x 768, in bf16: 15 of 16 are on other ranks.
  const experts = 48 * 128 * 3 * 2048 * 768;
  const less = alone.memory.params - apart.memory.params;
  assert.ok(Math.abs(less / (2 * experts * (15 / 16)) - 1) < 1e-9);
  assert.ok(apart.time.commBytes.ep > 0 && alone.time.commBytes.ep === 0);
  // 8 of 128 experts compute: FLOP/s of 3.4 billion parameters, not of 30.5 billion.
  const short = at({ seq: 128 });
  const perToken = (predict(short).time.modelFlopsPerGpu * 16) / (short.globalBatch * 128);
  assert.ok(perToken > 6 * 3.0e9 && perToken < 6 * 3.35e9, String(perToken));
  assert.throws(() => at({ parallel: { ep: 3 } }), /ep \(3\) must divide the model's 128 experts/);
  assert.throws(
    () => layoutOfLine({ model: 'llama3-8b', gpus: 8, parallel: { ep: 2 } }),
    /has no experts to divide/,
  );
});

test("models that are built here have the sizes of their publishers' configs, and no other entry", () => {
  const names = new Set<string>();
  for (const [hub, config] of Object.entries(PUBLISHED_CONFIGS)) {
    const name = modelNamed(hub) ?? assert.fail(hub);
    names.add(name);
    const [built, stored] = [modelOf(name), shapeOfHub(config, hub)].map((model) => {
      const { layers, dim, heads, kvHeads, headDim, ffn, vocab, tied, params } = shapeOf(model);
      return { layers, dim, heads, kvHeads, headDim, ffn, vocab, tied, params };
    });
    assert.deepEqual(built, stored, name);
  }
  assert.ok(names.size >= 15, [...names].join(' '));
});

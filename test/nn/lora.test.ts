import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { publishedName } from '../../src/config/families/published';
import type { LoraConfig } from '../../src/config/settings/lora';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig } from '../../src/config/train-config';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import { Linear } from '../../src/nn/linear';
import { loadState, type StateEntry } from '../../src/nn/load-state';
import { applyLoRA, magnitudesOf, mergeLoRA } from '../../src/nn/lora';
import { buildModel } from '../../src/nn/models/build-model';
import { gpt } from '../../src/nn/models/gpt';
import type { Module } from '../../src/nn/module';
import * as nn from '../../src/nn/names/nn-names';
import { requireSelfContained } from '../../src/nn/self-contained';
import { createOptimizer } from '../../src/sharding/optim/create-optimizer';
import { alwaysWrapPolicy, modulesToWrap } from '../../src/sharding/wrap-policy';
import { assertClose, valuesOf as numbersIn } from '../support/close';
import { testEngine } from '../support/wasm-test-engine';
import { referenceCases, scattered } from './model-reference';

interface PeftCase {
  readonly name: 'llama' | 'gpt2';
  readonly shape: Readonly<Record<string, number>>;
  readonly lora: Pick<LoraConfig, 'r' | 'alpha' | 'useDora'> & { readonly targets: string[] };
  readonly base: readonly string[];
  readonly trained: readonly string[];
  readonly lr: number;
  readonly losses: readonly number[];
  readonly merged: number;
}

const SHAPE = { layers: 2, dim: 16, heads: 4, vocab: 40, seq: 8 };
/** GPT-2's layers by their names here. */
const OURS: Readonly<Record<string, string>> = { c_attn: 'qkv', c_fc: 'fc1' };

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

for (const reference of referenceCases<unknown>('lora_reference.json') as unknown as PeftCase[]) {
  const kind = reference.lora.useDora ? 'DoRA' : 'LoRA';
  test(`losses with adapters equal those of PEFT, before and after merging: ${kind}, ${reference.name}`, () => {
    const { lora, losses, lr, merged } = reference;
    const model = modelOf(reference);
    applyLoRA(model, { ...lora, targets: lora.targets.map((target) => OURS[target] ?? target) });
    loadA(model, reference);
    const trained = [...model.namedParameters()].filter(([, { requiresGrad }]) => requiresGrad);
    assert.equal(trained.length, reference.trained.length);
    assert.ok(trained.every(([name]) => /\.lora_([AB]\.weight|magnitude_vector)$/.test(name)));
    const { optimizer: rule, offload } = parseTrainConfig({ optimizer: { kind: 'sgd', lr } });
    const optimizer = createOptimizer(engine, model, rule, offload);
    const found = losses.map(() => {
      const pass = gradients(engine, () => lossOf(model));
      const [loss = Number.NaN] = pass.loss.dataSync();
      pass.backward();
      pass.loss.dispose();
      optimizer.step();
      optimizer.zeroGrad();
      return loss;
    });
    assertClose(found, losses, 2e-6, 'losses');
    mergeLoRA(model);
    assert.ok([...model.namedParameters().keys()].every((name) => !name.includes('lora_')));
    const [after = Number.NaN] = tf.tidy(() => lossOf(model).dataSync());
    assertClose([after], [merged], 2e-6, 'merged loss');
    optimizer.dispose();
    model.dispose();
  });
}

/** A model in which two layers have one matrix; its middle layer is used twice. */
class Tied extends nn.Module {
  readonly emb = new nn.Embedding(5, 4);
  readonly twice = new nn.Linear(4, 4);
  readonly first = new nn.Linear(4, 4);
  readonly second = new nn.Linear(4, 4);
  readonly head = new nn.Linear(4, 5, { bias: false });

  constructor() {
    super();
    this.head.weight = this.emb.weight;
    this.second.weight = this.first.weight;
  }

  forward(x: tf.Tensor): tf.Tensor {
    const h = this.twice.apply(tf.tanh(this.twice.apply(this.emb.apply(x))));
    return this.head.apply(tf.tanh(this.second.apply(tf.tanh(this.first.apply(h)))));
  }
}

for (const useDora of [false, true]) {
  for (const targets of [['head'], ['first', 'second'], ['second', 'head', 'twice']]) {
    test(`merging adapters of tied matrices does not change outputs: ${useDora ? 'DoRA' : 'LoRA'} of ${targets}`, () => {
      const model = new Tied();
      const x = tf.tensor1d([0, 1, 2, 3, 4], 'int32');
      applyLoRA(model, { r: 2, alpha: 8, targets, useDora });
      for (const [name, { shape, tensor, size }] of model.namedParameters()) {
        // Adapters that have trained.
        if (name.includes('lora_B')) engine.copyInto(tensor, 0, tf.tensor(scattered(size, 7), [...shape]));
      }
      const outputs = (): Float32Array => tf.tidy(() => numbersIn(model.apply(x)));
      const before = outputs();
      const embedding = numbersIn(model.emb.weight.tensor);
      mergeLoRA(model);
      assertClose(outputs(), before, 1e-6, 'outputs');
      assert.deepEqual(numbersIn(model.emb.weight.tensor), embedding);
      const isHeadTied = model.head.weight === model.emb.weight;
      assert.equal(isHeadTied, !targets.includes('head'));
      assert.equal(model.namedParameters().has('head.weight'), !isHeadTied);
      assert.ok(model.parameters().every(({ requiresGrad }) => !requiresGrad));
      model.dispose();
    });
  }
}

test('adapters change nothing before training, and their initial values are those of a linear layer and 0', () => {
  const [plain, adapted] = [gpt({ ...SHAPE, seed: 3 }), gpt({ ...SHAPE, seed: 3 })];
  assert.deepEqual(applyLoRA(adapted, { r: 4, dropout: 0.5, targets: ['blocks.0.qkv', 'fc2'] }), [
    'blocks.0.qkv',
    'blocks.0.fc2',
    'blocks.1.fc2',
  ]);
  const values = (model: Module): Float32Array => tf.tidy(() => lossOf(model).dataSync() as Float32Array);
  assert.deepEqual(values(adapted), values(plain));
  const state = adapted.namedParameters();
  const a = state.get('blocks.0.fc2.lora_A.weight')?.tensor;
  assert.deepEqual(a?.shape, [4, 64]);
  const largest = Math.max(...(a?.dataSync() ?? []).map(Math.abs));
  assert.ok(largest > 0.9 / 8 && largest <= 1 / 8, `${largest}`); // uniform in ±1/sqrt(64)
  assert.ok(
    (state.get('blocks.0.fc2.lora_B.weight')?.tensor.dataSync() ?? [1]).every((value) => value === 0),
  );
  for (const model of [plain, adapted]) model.dispose();
});

test('magnitudes begin as the norms of their matrices, whatever gives these values, so they change nothing before training', () => {
  const plain = gpt({ ...SHAPE, seed: 3 });
  const options = { r: 4, dropout: 0.5, targets: ['qkv', 'fc2'], useDora: true };
  const losses = [plain, gpt({ ...SHAPE, seed: 3 }), gpt({ ...SHAPE, seed: 5 }), gpt(SHAPE)].map(
    (model, i) => {
      // The last two get other values after and before they have adapters.
      if (i === 3) loadState(engine, model, new Map(valuesOf(plain)));
      if (i > 0) applyLoRA(model, options);
      if (i === 2) model.manualSeed(3);
      const state = model.namedParameters();
      for (const [name, { tensor }] of i > 0 ? state : []) {
        if (!name.endsWith('.lora_magnitude_vector')) continue;
        const weight = state.get(name.replace('lora_magnitude_vector', 'weight'))?.tensor ?? tf.zeros([1, 1]);
        assert.deepEqual(tensor.shape, weight.shape.slice(0, 1));
        assertClose(tensor.dataSync(), tf.norm(weight, 2, 1).dataSync(), 1e-6, name);
      }
      const [loss = Number.NaN] = tf.tidy(() => lossOf(model).dataSync());
      return loss;
    },
  );
  assertClose(losses, Array(4).fill(losses[0]), 1e-6, 'losses');
  const written = gpt({ ...SHAPE, seed: 3 });
  for (const { tensor } of written.parameters()) assert.ok(tensor.size > 0); // From now on, the values are in tensors.
  applyLoRA(written, options);
  const [loss = Number.NaN] = tf.tidy(() => lossOf(written).dataSync());
  assertClose([loss], losses.slice(0, 1), 1e-6, 'loss');
});

test('magnitudes of a matrix with a row of zeros are refused, because the row has no direction', () => {
  const model = new Linear(3, 2);
  const { weight } = model;
  weight.defer({
    fill: (start, target) => target.set([1, 2, 3, 0, 0, 0].slice(start, start + target.length)),
  });
  assert.throws(
    () => magnitudesOf(weight).tensor,
    /lora\.useDora: all weights of row 1 of weight are 0, .*leave the layer out of lora\.targets/,
  );
});

test('with magnitudes, the matrices of an adapter are in the unit of their layer, whose forward reads them', () => {
  const model = gpt(SHAPE);
  applyLoRA(model, { targets: ['fc1'], useDora: true });
  const units = modulesToWrap(model, alwaysWrapPolicy).map(({ path }) => path);
  assert.ok(units.includes('blocks.0.fc1'), `${units}`);
  assert.deepEqual(
    units.filter((path) => path.includes('lora_')),
    [],
  );
  assert.throws(
    () =>
      requireSelfContained([model.modules().find(({ path }) => path.endsWith('lora_A')) ?? model], 'wrap'),
    /"blocks\.0\.fc1\.lora_A" cannot be a separate unit, because "blocks\.0\.fc1" also reads/,
  );
});

test('a wrong target, a second call and wrong options are refused', () => {
  const model = gpt(SHAPE);
  assert.throws(
    () => applyLoRA(model, { targets: ['qkvs'] }),
    /no module of the model is named "qkvs"; did you mean "qkv"\?/,
  );
  assert.throws(
    () => applyLoRA(model, { targets: ['ln_f'] }),
    /"ln_f" names ln_f, a LayerNorm; adapters are for nn\.Linear only/,
  );
  assert.throws(() => applyLoRA(model, { rank: 4 } as object), /applyLoRA: rank: unknown key; .*r/);
  assert.throws(() => mergeLoRA(model), /the model has no adapters/);
  assert.ok(model.parameters().every(({ requiresGrad }) => requiresGrad));
  applyLoRA(model);
  assert.throws(() => applyLoRA(model), /blocks\.0\.qkv has an adapter already/);
});

test('a config refuses adapters of split matrices, and warns of frozen names beside them', () => {
  assert.throws(
    () => parseTrainConfig({ lora: {}, parallel: { tp: 2 } }),
    /lora: needs whole matrices, but parallel\.tp 2 splits them/,
  );
  assert.throws(
    () => parseTrainConfig({ lora: { lora_alpha: 3 } as object }),
    /lora\.lora_alpha: .*lora\.alpha/,
  );
});

/** A model's values, to load into another model. */
function valuesOf(model: Module): [string, StateEntry][] {
  return [...model.namedParameters()].map(([name, { shape, tensor }]) => [
    name,
    { shape, values: tensor.dataSync() as Float32Array },
  ]);
}

function modelOf({ name, shape, base }: PeftCase): Module {
  const model = { ...shape, kind: name === 'gpt2' ? 'gpt' : 'llama' } as object;
  const config = parseTrainConfig({ model, data: 'synthetic' });
  const built = buildModel(config);
  const own = new Map(
    [...built.namedParameters()].map(([key, parameter]) => {
      const published = publishedName(modelShape(config), key);
      return [published.name, { key, parameter, isTransposed: published.isTransposed }];
    }),
  );
  const state = base.map((theirs, p) => {
    const found = own.get(theirs);
    assert.ok(found, theirs);
    const { key, parameter, isTransposed } = found;
    const norm = theirs.split('.').some((part) => part.startsWith('ln_') || part.includes('norm'));
    const extra = norm && theirs.endsWith('weight') ? 1 : 0;
    const values = scattered(parameter.size, p).map((value) => value + extra);
    const { shape: extents } = parameter;
    return [key, { shape: extents, values: isTransposed ? transposed(values, extents) : values }] as const;
  });
  loadState(engine, built, new Map(state));
  return built;
}

/** Gives A the reference's values. */
function loadA(model: Module, { trained }: PeftCase): void {
  const names = [...model.namedParameters().keys()].filter((name) => name.includes('lora_A'));
  const theirs = trained.filter((name) => name.includes('lora_A'));
  assert.equal(names.length, theirs.length);
  names.forEach((name, p) => {
    const parameter = model.namedParameters().get(name);
    assert.ok(parameter);
    parameter.defer({
      fill: (start, target) =>
        target.set(scattered(parameter.size, p).subarray(start, start + target.length)),
    });
  });
}

/** Returns a matrix [outputs, inputs] from its transpose. */
function transposed(values: Float32Array, [outputs = 0, inputs = 0]: readonly number[]): Float32Array {
  return Float32Array.from(values, (_, i) => values[(i % inputs) * outputs + Math.floor(i / inputs)] ?? 0);
}

function lossOf(model: Module): tf.Tensor {
  const rows = [0, 1].map((b) => Array.from({ length: 9 }, (_, i) => (7 * i + 3 * b) % 40));
  const ids = tf.tensor2d(
    rows.map((row) => row.slice(0, 8)),
    [2, 8],
    'int32',
  );
  const targets = tf.tensor1d(
    rows.flatMap((row) => row.slice(1)),
    'int32',
  );
  return model.apply(ids, targets) as tf.Tensor;
}

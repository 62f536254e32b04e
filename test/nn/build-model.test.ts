import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import * as tf from '../../src/core/tf';
import { buildModel } from '../../src/nn/models/build-model';
import { gpt } from '../../src/nn/models/gpt';
import { freeze } from '../../src/nn/name-patterns';
import { assertClose } from '../support/close';
import { collectGradients } from '../support/collect-gradients';
import { testEngine } from '../support/wasm-test-engine';

const SHAPE = { layers: 2, dim: 8, heads: 2, vocab: 300, seq: 4 };
const MODELS = {
  gpt: { kind: 'gpt', ...SHAPE },
  untied: { kind: 'gpt', ...SHAPE, tied: false },
  moe: { kind: 'moe', ...SHAPE, tied: false, experts: 2 },
} as const;

before(async () => {
  await testEngine();
});

for (const [name, model] of Object.entries(MODELS)) {
  test(`${name}: a built model has names and shapes, and takes no memory for values`, async () => {
    const engine = await testEngine();
    const { bytes } = engine.memory;
    const built = buildModel(parseTrainConfig({ model }));
    assert.ok(built.numParams() > 0 && built.parameters().every(({ isWhole }) => !isWhole));
    assert.equal(engine.memory.bytes, bytes);
    built.dispose();
  });
}

test('a size that is missing, misspelled or no whole number is an error that names it', () => {
  const { layers: _, ...missing } = SHAPE;
  assert.throws(() => gpt(missing as never), /gpt: layers: is missing/);
  assert.throws(
    () => gpt({ ...SHAPE, atention: 'flash' } as never),
    /gpt: atention: unknown key; did you mean "attention"\?/,
  );
  assert.throws(() => gpt({ ...SHAPE, dim: 7.5 }), /gpt: dim: .* got 7.5/);
});

test('an untied head is its own parameter and gets its own gradient', async () => {
  const engine = await testEngine();
  const tied = gpt({ ...SHAPE, vocab: 16 });
  const untied = gpt({ ...SHAPE, vocab: 16, tied: false });
  assert.equal(untied.numParams() - tied.numParams(), 16 * 8);
  engine.copyInto(untied.lm_head?.weight.tensor ?? tf.zeros([0]), 0, tied.wte.weight.tensor);
  const grads = [tied, untied].map((model) => {
    return collectGradients(
      engine,
      model,
    )(() => model.apply(tf.tensor2d([[1, 2, 3, 4]], [1, 4], 'int32'), tf.tensor1d([2, 3, 4, 5], 'int32')));
  });
  const of = (i: number, name: string): number[] => [...(grads[i]?.get(name) ?? [])];
  const sum = of(1, 'wte.weight').map((value, i) => value + (of(1, 'lm_head.weight')[i] ?? 0));
  // The gradient of a tied table is the sum of both uses.
  assertClose(of(0, 'wte.weight'), sum, 1e-6, 'table');
  tied.dispose();
  untied.dispose();
});

test('parameters are frozen by the name of their module or by their own name', () => {
  const model = gpt(SHAPE);
  freeze(model, ['wte', 'blocks.*.ln1', 'blocks.1.fc1.bias']);
  const frozen = model.parameters().filter(({ requiresGrad }) => !requiresGrad);
  assert.deepEqual(
    frozen.map(({ name }) => name),
    [
      'wte.weight',
      ...[0, 1].flatMap((i) => [`blocks.${i}.ln1.weight`, `blocks.${i}.ln1.bias`]),
      'blocks.1.fc1.bias',
    ].sort((a, b) => order(model, a) - order(model, b)),
  );
  model.dispose();
});

test('a pattern without a match is an error that names the nearest module', () => {
  const model = gpt(SHAPE);
  assert.throws(() => freeze(model, ['blocks.*.fc3']), {
    code: 'CONFIG',
    message: 'frozen: no module of the model is named "blocks.*.fc3"; did you mean "blocks.*.fc1"?',
  });
  assert.throws(() => freeze(model, ['block.1']), /did you mean "blocks.1"/);
  assert.throws(() => freeze(model, ['decoder.rotary']), /there are wte, wpe, blocks, blocks\.\*/);
  assert.throws(() => freeze(model, ['']), /frozen: {2}leave nothing to train|leave nothing to train/);
  model.dispose();
});

function order(model: ReturnType<typeof gpt>, name: string): number {
  return [...model.namedParameters().keys()].indexOf(name);
}

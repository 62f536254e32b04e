import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { SILENT } from '../../src/core/events';
import { IGNORED_LABEL } from '../../src/core/ignored-label';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import { softmaxCrossEntropy } from '../../src/engine/backend/ops';
import { plainCrossEntropy } from '../../src/engine/backend/plain-ops';
import { buildModel } from '../../src/nn/models/build-model';
import type { GPT } from '../../src/nn/models/gpt';
import type { Llama } from '../../src/nn/models/llama';
import type { Module } from '../../src/nn/module';
import { type PackedSequences, packSequences } from '../../src/nn/packing';
import type { PreparedInstructions } from '../../src/training/data/prepared';
import { createTrainer, type Trainer } from '../../src/training/trainer';
import { scattered } from '../nn/model-reference';
import { assertClose } from '../support/close';
import { soloGroup } from '../support/solo-group';
import { testEngine } from '../support/wasm-test-engine';
import { CHATS, LLAMA, preparer, sftConfig, sftReference, TOKENIZER } from './instruction-data';

const { prepare } = preparer();
let engine: Engine;
before(async () => {
  engine = await testEngine();
});

function trainerOn(config: TrainConfig, data: PreparedInstructions): Trainer {
  return createTrainer({ config, data, engine, group: soloGroup(engine), observer: SILENT });
}

/** Gives a model the values of sft_reference.py. */
function giveReferenceValues(model: Module): void {
  const { base, trained } = sftReference().training;
  const give = (name: string, place: number): void => {
    const parameter = model.namedParameters().get(name);
    assert.ok(parameter, name);
    const extra = /norm.*\.weight$/.test(name) ? 1 : 0;
    const values = scattered(parameter.size, place).map((value) => value + extra);
    parameter.defer({
      fill: (start, target) => target.set(values.subarray(start, start + target.length)),
    });
  };
  for (const [place, name] of base.entries()) give(name, place);
  const ofA = trained.filter((name) => name.includes('lora_A'));
  for (const [place, name] of ofA.entries())
    give(name.replace('base_model.model.', '').replace('.default', ''), place);
}

test("losses of adapters on answers equal PEFT's, with its batches, accumulation, AdamW and cosine schedule", async () => {
  const { settings, training } = sftReference();
  const { batch, accumulation, seed, steps, lr } = settings;
  const config = sftConfig({
    ...{ batch, accumulation, seed, steps },
    lora: { r: 4, alpha: 8, targets: ['q_proj', 'v_proj', 'down_proj'] },
    optimizer: { lr, betas: [0.9, 0.95], weightDecay: 0.1 },
    schedule: { kind: 'cosine' },
    clipNorm: 1,
    parallel: { strategy: 'NO_SHARD' },
  });
  const trainer = trainerOn(config, await prepare(config));
  giveReferenceValues(trainer.model);
  const results = Array.from({ length: steps }, () => trainer.step());
  trainer.dispose();
  assertClose(
    results.map(({ loss }) => loss),
    training.losses,
    2e-6,
    'losses',
  );
  assertClose(
    results.map(({ gradNorm }) => gradNorm),
    training.norms,
    1e-4,
    'norms',
  );
});

for (const [name, attention] of [
  ['gpt', 'eager'],
  ['gpt', 'flash'],
  ['llama', 'eager'],
  ['llama', 'flash'],
] as const) {
  test(`a packed row has the losses and gradients of its documents alone: ${name}, ${attention}`, () => {
    const { kvHeads, ...sizes } = { ...LLAMA, attention };
    const model = name === 'gpt' ? { ...sizes, kind: 'gpt' } : { ...sizes, kvHeads };
    const config = parseTrainConfig({ model, data: 'synthetic', seed: 3 } as TrainConfigInput);
    const lengths = [5, 12, 1, 30];
    const starts = [0, 5, 17, 18];
    const ids = Int32Array.from({ length: 48 }, (_, i) => (i * 37 + 11) % LLAMA.vocab);
    const targets = ids.map((id, i) => (i % 3 === 0 ? IGNORED_LABEL : (id * 5 + 1) % LLAMA.vocab));
    const lossesOf = (packed: PackedSequences | null, built: Module): number[] => {
      const sum = (from: number, to: number): tf.Tensor =>
        tf.mul(
          built.apply(
            tf.tensor2d(ids.slice(from, to), [1, to - from], 'int32'),
            tf.tensor1d(targets.slice(from, to), 'int32'),
          ) as tf.Tensor,
          to - from,
        );
      packed?.begin(lengths);
      const pass = gradients(engine, () => {
        if (packed !== null) return sum(0, 48);
        const parts = lengths.map((length, i) => sum(starts[i] ?? 0, (starts[i] ?? 0) + length));
        return parts.reduce((a, b) => tf.add(a, b));
      });
      const [loss = Number.NaN] = pass.loss.dataSync();
      pass.backward();
      pass.loss.dispose();
      packed?.end();
      return [loss, ...built.parameters().flatMap(({ grad }) => [...(grad?.dataSync() ?? [])])];
    };
    const [alone, together] = [buildModel(config), buildModel(config)] as [GPT | Llama, GPT | Llama];
    const expected = lossesOf(null, alone);
    const found = lossesOf(packSequences(together), together);
    assert.ok(expected.length > 10_000 && (expected[0] ?? 0) > 100);
    assertClose(found, expected, 1e-5, 'loss and gradients');
    // Without documents, the row is one sequence, which has other losses.
    const whole = lossesOf(null, together);
    assert.equal(whole.length, found.length);
    for (const one of [alone, together]) one.dispose();
  });
}

test('training on packed rows has the losses of training on unpacked ones, to 1e-5', async () => {
  const losses = await Promise.all(
    [false, true].map(async (packing) => {
      const config = sftConfig({ batch: 6, clipNorm: 1, optimizer: { lr: 1e-2 } }, { packing });
      const data = await prepare(config);
      const batch = data.train.numRows;
      assert.equal(batch < 6, packing);
      const trainer = trainerOn({ ...config, batch }, data);
      const results = Array.from({ length: 6 }, () => trainer.step());
      trainer.dispose();
      return results.flatMap(({ loss, gradNorm }) => [loss, gradNorm]);
    }),
  );
  const [unpacked = [], packed = []] = losses;
  assertClose(packed, unpacked, 1e-5, 'losses and norms');
  assert.ok((packed[10] ?? Number.NaN) < (packed[0] ?? Number.NaN) - 0.5);
});

test('an evaluation is the mean over the answers of validation rows, packed or not, whatever the batch', async () => {
  const losses: number[] = [];
  for (const packing of [false, true]) {
    for (const batch of [1, 4]) {
      const config = sftConfig({ batch }, { packing, validation: CHATS });
      const trainer = trainerOn(config, await prepare(config));
      const { loss } = await trainer.evaluate(() => Promise.resolve());
      losses.push(loss);
      trainer.dispose();
    }
  }
  assertClose(losses, new Array<number>(4).fill(losses[0] ?? Number.NaN), 1e-5, 'losses');
  assert.ok(Math.abs((losses[0] ?? 0) - Math.log(LLAMA.vocab)) < 0.2, `${losses[0]}`);
});

test('cross-entropy gives rows with the ignored label the loss 0 and no gradient, on the kernel and composed', () => {
  const logits = tf.tensor2d(scattered(5 * 7, 1, 4), [5, 7]);
  const labels = tf.tensor1d([3, IGNORED_LABEL, 6, IGNORED_LABEL, 0], 'int32');
  const of = (loss: (x: tf.Tensor) => tf.Tensor): number[] =>
    tf.tidy(() => {
      const { value, grads } = tf.variableGrads(() => loss(variable) as tf.Scalar, [variable]);
      return [...value.dataSync(), ...(Object.values(grads)[0]?.dataSync() ?? [])];
    });
  const variable = tf.variable(logits);
  const expected = of((x) => plainCrossEntropy(x, labels));
  assertClose(
    of((x) => softmaxCrossEntropy(x, labels)),
    expected,
    1e-6,
    'kernel',
  );
  const inPlace = of((x) => softmaxCrossEntropy(tf.mul(x, 1), labels, { consumeLogits: true }));
  assertClose(inPlace, expected, 1e-6, 'in place');
  assert.ok(expected.slice(8, 15).every((value) => value === 0));
  const outside = tf.tensor1d([3, -99, 6, 1, 0], 'int32');
  assert.throws(() => softmaxCrossEntropy(logits, outside), /element 1 of labels is -99/);
  tf.dispose([logits, labels, outside, variable]);
});

test('adapters and whole models learn their answers', async () => {
  const pair = { instructions: CHATS, tokenizer: TOKENIZER };
  // Adapters of a model with random values learn less. At higher rates their losses jump by as much as they fall.
  for (const { lora, lr, less } of [
    { lora: null, lr: 3e-2, less: 1 },
    { lora: { r: 8, alpha: 32 }, lr: 1e-2, less: 0.2 },
  ]) {
    const config = sftConfig({ batch: 6, lora, optimizer: { lr }, steps: 30 }, pair);
    const trainer = trainerOn(config, await prepare(config));
    const losses = Array.from({ length: 30 }, () => trainer.step().loss);
    trainer.dispose();
    assert.ok((losses.at(-1) ?? 9) < (losses[0] ?? 0) - less, `${losses}`);
  }
});

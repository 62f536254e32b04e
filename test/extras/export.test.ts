import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { planBundle } from '../../src/programs/bundle/bundle';
import { bundleOf, GPT, LLAMA } from '../programs/export/export-fixture';

function refusal(input: TrainConfigInput, to: string): string {
  try {
    planBundle(parseTrainConfig({ model: GPT, batch: 2, ...input }), {
      to,
      out: 'no-such-folder',
      gpusPerMachine: 4,
    });
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  return '';
}

test('TorchTitan and LLaMA-Factory refuse what would train something else', () => {
  assert.match(refusal({}, 'torchtitan'), /model: TorchTitan has no model of kind 'gpt'/);
  assert.match(refusal({ model: { ...LLAMA, tied: true } }, 'torchtitan'), /output layer of its own/);
  const ddp = { tp: 2, strategy: 'NO_SHARD' } as const;
  assert.match(
    refusal({ model: LLAMA, parallel: ddp }, 'torchtitan'),
    /TorchTitan's DDP excludes parallel\.tp/,
  );
  assert.match(refusal({ model: LLAMA, mixedPrecision: 'fp16' }, 'torchtitan'), /TorchTitan has no float16/);
  assert.match(refusal({ parallel: { tp: 2 } }, 'llamafactory'), /parallel\.tp: .*'swift'/);
  assert.match(
    refusal({ optimizer: { kind: 'sgd', momentum: 0.9 } }, 'llamafactory'),
    /optimizer\.momentum: this target does not have it, .* export to 'torchrun'/,
  );
  const longer = { kind: 'cosine', maxSteps: 100 } as const;
  assert.match(
    refusal({ steps: 10, schedule: longer }, 'llamafactory'),
    /maxSteps 100 differs from steps 10/,
  );
  assert.match(
    refusal({ model: LLAMA, lora: { targets: ['q_prj'] } }, 'llamafactory'),
    /lora\.targets: no module of the model is named "q_prj"; did you mean "q_proj"/,
  );
});

test('a program that refuses a model names the other programs of texts that train it', () => {
  assert.match(refusal({}, 'swift'), /swift has no GPT-2; use a llama, or export to 'llamafactory'$/m);
});

test('the report has the names of keys that the bundle writes, and says what is reduced in another type', (context) => {
  const input = { model: LLAMA, optimizer: { weightDecay: 0.5 }, mixedPrecision: 'bf16' } as const;
  const { report, text } = bundleOf(context, input, { to: 'torchtitan' });
  const of = (setting: string) => report.settings.find((one) => one.setting === setting);
  assert.deepEqual(of('optimizer.weightDecay')?.names, ['weight_decay']);
  assert.equal(of('mixedPrecision.paramDtype')?.meaning, 'gradients are reduced in float32');
  assert.equal(of('data')?.effect, 'other');
  assert.match(text('requirements.txt'), /^torchtitan==0\.2\.2\n$/);
  assert.match(text('train.toml'), /^initial_load_path = "\.\/model"$/m);
});

test('numbers that Python must read as floats have a point', (context) => {
  const input: TrainConfigInput = {
    model: LLAMA,
    optimizer: { lr: 1, betas: [0, 0.9], eps: 1, weightDecay: 0 },
  };
  const textIn = (to: string, file: string): string => bundleOf(context, input, { to }).text(file);
  assert.match(textIn('llamafactory', 'train.yaml'), /^adam_beta1: 0\.0$/m);
  assert.match(textIn('torchtitan', 'train.toml'), /^lr = 1\.0\n(.*\n)*beta1 = 0\.0\nbeta2 = 0\.9$/m);
  // PyYAML takes 1e-7 as a text.
  const { text } = bundleOf(context, { model: LLAMA, optimizer: { lr: 1e-7 } }, { to: 'llamafactory' });
  assert.match(text('train.yaml'), /^learning_rate: 1\.0e-7$/m);
});

test("adapters' layers are written by names that PEFT finds: without patterns, and with GPT-2's own names", (context) => {
  const written = (input: TrainConfigInput): unknown[] => {
    const { text, report } = bundleOf(context, input, { to: 'llamafactory' });
    const [, names] = /^lora_target: (.*)$/m.exec(text('train.yaml')) ?? [];
    const effect = report.settings.find(({ setting }) => setting === 'lora')?.effect;
    return [names?.replace(/["']/g, '').split(/[ ,]/), effect];
  };
  const q = ['model.layers.0.self_attn.q_proj', 'model.layers.1.self_attn.q_proj'];
  assert.deepEqual(written({ model: LLAMA, lora: { targets: ['model.layers.*.self_attn.q_proj'] } }), [
    q,
    'said',
  ]);
  assert.deepEqual(written({ model: GPT, lora: { targets: ['qkv'] } }), [
    ['transformer.h.0.attn.c_attn', 'transformer.h.1.attn.c_attn'],
    'other',
  ]);
});

test("Kubernetes' job has the numbers of machines and GPUs", (context) => {
  const { kind, spec } = parse(
    bundleOf(context, {}, { to: 'kubernetes', machines: 4, gpusPerMachine: 8 }).text('pytorchjob.yaml'),
  );
  assert.equal(kind, 'PyTorchJob');
  assert.equal(spec.pytorchReplicaSpecs.Worker.replicas, 3);
  const [pod] = spec.pytorchReplicaSpecs.Master.template.spec.containers;
  assert.equal(pod.resources.limits['nvidia.com/gpu'], 8);
  assert.equal(pod.name, 'pytorch', 'the operator looks for this name');
});

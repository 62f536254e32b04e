import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { type BundleOptions, planBundle } from '../../../src/programs/export/bundle';
import { bundleOf, GPT, LLAMA, testFolder } from './export-fixture';

function refusal(input: TrainConfigInput, to: string, options: Partial<BundleOptions> = {}): string {
  const config = parseTrainConfig({ model: GPT, batch: 2, ...input });
  try {
    planBundle(config, {
      to: to as BundleOptions['to'],
      out: 'no-such-folder',
      gpusPerMachine: 4,
      ...options,
    });
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  return '';
}

test('settings that a target cannot express are refused by name, all at once', () => {
  const both = refusal({ parallel: { pp: 2 }, optimizer: { kind: 'lion' } }, 'torchrun');
  assert.match(
    both,
    /a bundle for 'torchrun' cannot express .*\n.*parallel\.pp: .*'megatron'.*\n.*optimizer\.kind: torch\.optim has no lion/s,
  );
  assert.equal(refusal({ parallel: { pp: 2, strategy: 'ZERO_1' } }, 'megatron'), '');
  assert.match(
    refusal({}, 'megatron'),
    /FULL_SHARD is Megatron-LM's FSDP2, which excludes model\.tied true; use ZERO_1/,
  );
  assert.equal(refusal({ model: { ...GPT, tied: false } }, 'megatron'), '');
  assert.match(refusal({ parallel: { tp: 2 } }, 'accelerate'), /parallel\.tp: .*'torchrun'/);
  assert.match(
    refusal({ parallel: { tp: 2, strategy: 'NO_SHARD' } }, 'torchrun'),
    /parallel\.strategy: NO_SHARD with parallel\.tp 2/,
  );
  assert.match(refusal({ model: LLAMA, parallel: { tp: 4 } }, 'torchrun'), /4 does not divide the 2 heads/);
  assert.match(
    refusal({ mixedPrecision: 'fp16' }, 'torchrun'),
    /mixedPrecision\.paramDtype: float16 needs a scaler/,
  );
  assert.equal(refusal({ mixedPrecision: 'fp16' }, 'deepspeed'), '');
  assert.match(refusal({ optimizer: { delayedUpdate: true } }, 'deepspeed'), /optimizer\.delayedUpdate/);
  assert.match(refusal({ lora: { r: 2 } }, 'accelerate'), /lora: .*savePretrained/);
});

test('TorchTitan, swift and LLaMA-Factory refuse what would train something else', () => {
  assert.match(refusal({}, 'torchtitan'), /model: TorchTitan has no model of kind 'gpt'/);
  assert.match(refusal({ model: { ...LLAMA, tied: true } }, 'torchtitan'), /output layer of its own/);
  const ddp = { tp: 2, strategy: 'NO_SHARD' } as const;
  assert.match(
    refusal({ model: LLAMA, parallel: ddp }, 'torchtitan'),
    /TorchTitan's DDP excludes parallel\.tp/,
  );
  assert.match(refusal({ model: LLAMA, mixedPrecision: 'fp16' }, 'torchtitan'), /TorchTitan has no float16/);
  assert.match(refusal({}, 'swift'), /swift has no GPT-2/);
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
  assert.equal(refusal({ model: LLAMA, lora: { r: 2 } }, 'swift'), '');
  for (const to of ['swift', 'llamafactory'])
    assert.match(
      refusal({ model: LLAMA, lora: { targets: ['q_prj'] } }, to),
      /lora\.targets: no module of the model is named "q_prj"; did you mean "q_proj"/,
    );
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

test('models, targets, places and folders that cannot be exported are refused with a next step', (context) => {
  assert.match(
    refusal({ model: 'wan-tiny', data: 'synthetic' }, 'torchrun'),
    /kind 'gpt' and 'llama', not 'dit'/,
  );
  assert.match(refusal({}, 'torchrn'), /did you mean 'torchrun'/);
  assert.match(refusal({}, 'slurm', { gpusPerMachine: 0 }), /gpusPerMachine is 0/);
  assert.match(
    refusal({ parallel: { tp: 3 }, model: { ...GPT, heads: 3, dim: 33 } }, 'torchrun'),
    /does not divide 1 x 4 = 4 ranks/,
  );
  assert.match(
    refusal({ parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 4 } } }, 'torchrun'),
    /2 x 4 ranks, but the bundle has 1 x 4 = 4 ranks/,
  );
  const folder = testFolder(context);
  mkdirSync(join(folder, 'used'));
  writeFileSync(join(folder, 'used', 'mine.txt'), 'mine');
  assert.match(refusal({}, 'torchrun', { out: join(folder, 'used') }), /not an empty folder/);
});

test('the report says of each setting what became of it, with its name there', (context) => {
  const input: TrainConfigInput = {
    parallel: { strategy: 'ZERO_2', backwardPrefetch: 'BACKWARD_POST' },
    optimizer: { weightDecay: 0.5 },
    activationCheckpointing: 'selective',
  };
  const { report } = bundleOf(context, input, { to: 'torchrun' });
  const of = (setting: string) => report.settings.find((one) => one.setting === setting);
  assert.deepEqual(of('optimizer.weightDecay'), {
    setting: 'optimizer.weightDecay',
    value: 0.5,
    names: ['weight_decay'],
    effect: 'said',
    meaning: null,
  });
  assert.equal(of('parallel.backwardPrefetch')?.effect, 'left');
  assert.equal(of('activationCheckpointing')?.effect, 'other');
  assert.match(of('parallel.strategy')?.meaning ?? '', /no ZeRO-2/);
  assert.equal(of('optimizer.lr'), undefined, 'a default is not reported');
  const there = bundleOf(context, input, { to: 'deepspeed' }).report.settings;
  assert.equal(there.find(({ setting }) => setting === 'parallel.strategy')?.effect, 'said');
  assert.match(
    String(report),
    /## Left out \(the losses are the same up to rounding\)\n\n- `parallel\.backwardPrefetch`/,
  );
});

test('a bundle with fewer batches than steps says so', (context) => {
  const { report } = bundleOf(context, { steps: 10 }, { to: 'torchrun', steps: 2 });
  assert.match(report.notes.join(), /batches of 2 of 10 steps/);
});

test("adapters' layers are written by names that PEFT finds: without patterns, and with GPT-2's own names", (context) => {
  const written = (to: 'swift' | 'llamafactory', input: TrainConfigInput): unknown[] => {
    const { text, report } = bundleOf(context, input, { to });
    const found =
      to === 'swift'
        ? /--target_modules (.*) \\$/m.exec(text('launch.sh'))
        : /^lora_target: (.*)$/m.exec(text('train.yaml'));
    const effect = report.settings.find(({ setting }) => setting === 'lora')?.effect;
    return [found?.[1]?.replace(/["']/g, '').split(/[ ,]/), effect];
  };
  const q = ['model.layers.0.self_attn.q_proj', 'model.layers.1.self_attn.q_proj'];
  const pattern = { model: LLAMA, lora: { targets: ['model.layers.*.self_attn.q_proj'] } };
  assert.deepEqual(written('swift', pattern), [q, 'said']);
  assert.deepEqual(written('llamafactory', pattern), [q, 'said']);
  const ends = { model: LLAMA, lora: { targets: ['q_proj', 'v_proj'] } };
  assert.deepEqual(written('swift', ends), [['q_proj', 'v_proj'], 'said']);
  assert.deepEqual(written('llamafactory', { model: GPT, lora: { targets: ['qkv'] } }), [
    ['transformer.h.0.attn.c_attn', 'transformer.h.1.attn.c_attn'],
    'other',
  ]);
});

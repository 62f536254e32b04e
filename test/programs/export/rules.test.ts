import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { type BundleOptions, planBundle } from '../../../src/programs/bundle/bundle';
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
  assert.match(
    refusal({ lora: { r: 2 } }, 'accelerate'),
    /lora: adapters are not exported; merge them into a folder .*lora\.md\), and export a config/,
  );
});

test('swift refuses what would train something else', () => {
  assert.match(refusal({}, 'swift'), /swift has no GPT-2; use a llama/);
  assert.equal(refusal({ model: LLAMA, lora: { r: 2 } }, 'swift'), '');
  assert.match(
    refusal({ model: LLAMA, lora: { targets: ['q_prj'] } }, 'swift'),
    /lora\.targets: no module of the model is named "q_prj"; did you mean "q_proj"/,
  );
});

test('models, targets, places and folders that cannot be exported are refused with a next step', (context) => {
  assert.match(
    refusal({ model: 't5-tiny', data: 'synthetic' }, 'torchrun'),
    /kind 'gpt', 'llama', 'dit' and models of your own, not 't5-encoder'/,
  );
  assert.match(
    refusal({ model: 'wan-tiny', data: 'synthetic' }, 'megatron'),
    /'megatron' has no models of kind 'dit'; export to .*'accelerate'/,
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

test("adapters' layers are written by names that PEFT finds, without patterns", (context) => {
  const written = (input: TrainConfigInput): unknown[] => {
    const { text, report } = bundleOf(context, input, { to: 'swift' });
    const [, names] = /--target_modules (.*) \\$/m.exec(text('launch.sh')) ?? [];
    const effect = report.settings.find(({ setting }) => setting === 'lora')?.effect;
    return [names?.replace(/["']/g, '').split(' '), effect];
  };
  const q = ['model.layers.0.self_attn.q_proj', 'model.layers.1.self_attn.q_proj'];
  assert.deepEqual(written({ model: LLAMA, lora: { targets: ['model.layers.*.self_attn.q_proj'] } }), [
    q,
    'said',
  ]);
  const ends = { model: LLAMA, lora: { targets: ['q_proj', 'v_proj'] } };
  assert.deepEqual(written(ends), [['q_proj', 'v_proj'], 'said']);
});

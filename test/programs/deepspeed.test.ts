import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { DOCUMENTS, effects, readText, whyOf } from './read-files';

test("the document's JSON is read as it stands: ulysses is a warning, and rows wait for the number of ranks", () => {
  const reading = readConfig('deepspeed_ulysses.json', { cwd: DOCUMENTS });
  assert.equal(reading.world, null);
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'NO_SHARD', communicationDataType: 'float16', cp: 8, cpKind: 'ulysses' },
    accumulation: 8,
    clipNorm: 1,
  });
  assert.equal(effects(reading)['ulysses.size'], 'warning');
  assert.match(whyOf(reading, 'ulysses.size'), /no key ulysses and ignores it/);
  assert.equal(effects(reading).train_batch_size, 'planned');
  const of8 = readConfig('deepspeed_ulysses.json', { cwd: DOCUMENTS, world: 8 });
  assert.equal(of8.config.batch, 32, 'one data-parallel rank: 256 / 8 passes');
});

const ds = (settings: object, world?: number) =>
  readText('ds_config.json', JSON.stringify(settings, null, 2), world);

test('ZeRO, precision, optimizer and schedule become settings', () => {
  const { config } = ds({
    train_micro_batch_size_per_gpu: 4,
    gradient_accumulation_steps: 2,
    gradient_clipping: 0.5,
    zero_optimization: {
      stage: 3,
      offload_param: { device: 'cpu' },
      offload_optimizer: { device: 'cpu', pin_memory: true },
      zero_hpz_partition_size: 8,
    },
    bf16: { enabled: true },
    fp16: { enabled: false, initial_scale_power: 12 },
    optimizer: { type: 'AdamW', params: { lr: 3e-5, betas: [0.8, 0.999], eps: 1e-7, weight_decay: 0.03 } },
    scheduler: {
      type: 'WarmupDecayLR',
      params: { warmup_num_steps: 50, total_num_steps: 1000, warmup_type: 'linear', warmup_min_lr: 0 },
    },
  });
  assert.deepEqual(config, {
    optimizer: { weightDecay: 0.03, kind: 'adamW', lr: 3e-5, betas: [0.8, 0.999], eps: 1e-7 },
    schedule: { warmupSteps: 50, kind: 'linear', maxSteps: 1000 },
    batch: 4,
    accumulation: 2,
    clipNorm: 0.5,
    parallel: { strategy: 'FULL_SHARD', reshardAfterForward: 8 },
    offload: { parameters: true, optimizer: true },
    mixedPrecision: { paramDtype: 'bfloat16' },
  });
});

test("DeepSpeed's Adam is AdamW unless adam_w_mode is false; other optimizers are refused", () => {
  const kindOf = (optimizer: object): unknown =>
    ds({ optimizer, train_batch_size: 1 }).config.optimizer?.kind;
  assert.equal(kindOf({ type: 'Adam', params: {} }), 'adamW');
  assert.equal(kindOf({ type: 'Adam', params: { adam_w_mode: false } }), 'adam');
  const decayOf = (params: object): unknown =>
    ds({ optimizer: { type: 'AdamW', params }, train_batch_size: 1 }).config.optimizer?.weightDecay;
  assert.deepEqual([decayOf({}), decayOf({ torch_adam: true })], [0, 0.01], 'their own defaults');
  const lamb = ds({ optimizer: { type: 'Lamb' }, train_batch_size: 1 });
  assert.equal(effects(lamb)['optimizer.type'], 'refused');
});

test("'auto' has no effect by itself", () => {
  const reading = ds({
    train_micro_batch_size_per_gpu: 'auto',
    zero_optimization: { stage: 2 },
    bf16: { enabled: 'auto' },
  });
  assert.equal(effects(reading).train_micro_batch_size_per_gpu, 'none');
  assert.equal(reading.config.batch, undefined);
  assert.equal(reading.config.mixedPrecision, undefined);
});

test('rows that do not multiply out are an error with all numbers', () => {
  const settings = {
    train_batch_size: 100,
    train_micro_batch_size_per_gpu: 4,
    gradient_accumulation_steps: 2,
  };
  assert.match(
    whyOf(ds(settings, 8), 'train_batch_size'),
    /100 is not 4 rows per rank x 2 passes x 8 data-parallel ranks = 64/,
  );
  assert.equal(effects(ds({ ...settings, train_batch_size: 64 }, 8)).train_batch_size, 'used');
  const odd = ds({ train_batch_size: 100, gradient_accumulation_steps: 3 }, 8);
  assert.match(whyOf(odd, 'train_batch_size'), /no multiple of 3 passes x 8/);
  const derived = ds({ train_batch_size: 64, train_micro_batch_size_per_gpu: 2 }, 8);
  assert.equal(derived.config.accumulation, 4);
});

test('messages in float16 against gradients of another type are a warning; two types of parameters are an error', () => {
  const wire = (rest: object): string | undefined =>
    effects(ds({ communication_data_type: 'fp16', train_batch_size: 8, ...rest })).communication_data_type;
  assert.equal(wire({}), 'warning');
  assert.equal(wire({ bf16: { enabled: true } }), 'warning');
  assert.equal(wire({ fp16: { enabled: true } }), 'used');
  const alone = ds({ communication_data_type: 'fp16', train_batch_size: 8 });
  assert.match(whyOf(alone, 'communication_data_type'), /contradicts float32 gradients.*6e-8/);
  const both = ds({ fp16: { enabled: true }, bf16: { enabled: true }, train_batch_size: 8 });
  assert.equal(effects(both)['fp16.enabled'], 'error');
});

test('ZeRO-2 with offloaded parameters has no effect, and says what would have one', () => {
  const reading = ds({
    train_batch_size: 8,
    zero_optimization: { stage: 2, offload_param: { device: 'cpu' } },
  });
  assert.equal(effects(reading)['zero_optimization.offload_param.device'], 'none');
  assert.match(whyOf(reading, 'zero_optimization.offload_param.device'), /stage 3/);
  assert.equal(reading.config.offload, undefined);
});

test('a misspelled key is an error with the nearest one, in its section', () => {
  const reading = ds({
    zero_optimization: { stage: 2, overlap_com: true },
    train_batch_sise: 8,
    gradient_clipping: 1,
  });
  assert.match(whyOf(reading, 'zero_optimization.overlap_com'), /did you mean "overlap_comm"/);
  assert.match(whyOf(reading, 'train_batch_sise'), /did you mean "train_batch_size"/);
  const wrong = ds({ zero_optimization: { stage: 7 }, train_batch_size: 8 });
  assert.match(whyOf(wrong, 'zero_optimization.stage'), /expected 0, 1, 2, 3, got 7/);
});

test('a section whose value is no section is an error', () => {
  const { lines } = ds({ zero_optimization: 'three' });
  const [line] = lines.filter(({ key }) => key === 'zero_optimization');
  assert.equal(line?.effect, 'error');
  assert.match(line?.why ?? '', /expected a section with keys such as/);
});

test('rows per step that no number of ranks divides are an error without the number of ranks', () => {
  const text =
    '{"train_batch_size": 100, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 4}';
  assert.match(whyOf(readText('a.json', text), 'train_batch_size'), /no multiple of 3 rows x 4 passes = 12/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { DOCUMENTS, effects, folderOf, readText, whyOf } from './read-files';

test("the Accelerate document's file is read as it stands: world, machines, strategy, and an effect per line", () => {
  const reading = readConfig('accelerate_4x8.yaml', { cwd: DOCUMENTS });
  assert.equal(reading.world, 32);
  assert.equal(reading.machines, 4);
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'ZERO_2' },
    accumulation: 1,
    clipNorm: 1,
    offload: { optimizer: true },
    mixedPrecision: { paramDtype: 'bfloat16' },
  });
  assert.equal(reading.lines.length, 30, 'every key has a line');
  const by = effects(reading);
  assert.equal(by['deepspeed_config.offload_param_device'], 'none');
  assert.match(whyOf(reading, 'deepspeed_config.offload_param_device'), /no effect under ZERO_2.*stage 3/s);
  assert.equal(by['deepspeed_config.zero3_init_flag'], 'none');
  assert.match(whyOf(reading, 'deepspeed_config.zero3_init_flag'), /stage 3: with stage 2/);
  assert.equal(by.main_process_ip, 'warning');
  assert.match(whyOf(reading, 'main_process_ip'), /placeholder address, line 22/);
  assert.equal(by['dynamo_config.dynamo_backend'], 'planned');
  assert.equal(reading.place.compile, true);
  assert.equal(by.num_processes, 'planned');
  assert.equal(by.tpu_use_cluster, 'none');
  assert.equal(by.machine_rank, 'exported');
  assert.deepEqual(
    reading.lines.find(({ key }) => key === 'mixed_precision'),
    {
      file: 'accelerate_4x8.yaml',
      line: 25,
      key: 'mixed_precision',
      value: 'bf16',
      effect: 'used',
      why: 'mixedPrecision.paramDtype: "bfloat16"',
    },
  );
});

test('an unknown key is an error with the nearest key of its section', () => {
  const reading = readText(
    'a.yaml',
    'distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stag: 2\nnum_procesess: 4\n',
  );
  assert.match(whyOf(reading, 'deepspeed_config.zero_stag'), /did you mean "zero_stage"/);
  assert.match(whyOf(reading, 'num_procesess'), /did you mean "num_processes"/);
  const misplaced = readText('b.yaml', 'distributed_type: MULTI_GPU\nnum_processes: 2\nzero_stage: 2\n');
  assert.equal(effects(misplaced).zero_stage, 'error');
  assert.match(whyOf(misplaced, 'zero_stage'), /in another place: deepspeed_config\.zero_stage/);
});

test('processes that machines do not divide are an error with both numbers', () => {
  const reading = readText('a.yaml', 'distributed_type: MULTI_GPU\nnum_machines: 3\nnum_processes: 32\n');
  assert.equal(effects(reading).num_processes, 'error');
  assert.match(whyOf(reading, 'num_processes'), /32 processes are not divisible by 3 machines/);
});

const FSDP = (version: number, rest: string): string =>
  `compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: ${version}\n${rest}`;

test('FSDP 1 and 2 name strategies differently; both give ours', () => {
  const strategyOf = (text: string): unknown => readText('a.yaml', text).config.parallel?.strategy;
  assert.equal(strategyOf(FSDP(1, '  fsdp_sharding_strategy: SHARD_GRAD_OP\n')), 'SHARD_GRAD_OP');
  assert.equal(strategyOf(FSDP(1, '  fsdp_sharding_strategy: 5\n')), '_HYBRID_SHARD_ZERO2');
  assert.equal(strategyOf(FSDP(2, '  fsdp_reshard_after_forward: true\n')), 'FULL_SHARD');
  assert.equal(
    strategyOf(FSDP(2, '  reshard_after_forward: false\n')),
    'SHARD_GRAD_OP',
    'the prefix may be left out',
  );
  assert.equal(strategyOf(FSDP(2, '')), 'FULL_SHARD', 'the default');
});

test('keys of FSDP become units, prefetching, offload and recomputation', () => {
  const rest = [
    'fsdp_auto_wrap_policy: SIZE_BASED_WRAP',
    'fsdp_min_num_params: 2000',
    'fsdp_backward_prefetch: NO_PREFETCH',
    'fsdp_forward_prefetch: true',
    'fsdp_offload_params: true',
    'fsdp_activation_checkpointing: true',
    'fsdp_state_dict_type: SHARDED_STATE_DICT',
  ];
  const { config } = readText('a.yaml', FSDP(1, rest.map((line) => `  ${line}\n`).join('')));
  assert.deepEqual(config, {
    parallel: {
      strategy: 'FULL_SHARD',
      wrap: { minNumParams: 2000 },
      backwardPrefetch: null,
      forwardPrefetch: true,
    },
    offload: { parameters: true },
    activationCheckpointing: 'full',
    mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'bfloat16' },
  });
});

test('replicas make FSDP hybrid, over the mesh of parallelism_config', () => {
  const text = `${FSDP(2, '  fsdp_reshard_after_forward: true\n')}parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 2\n`;
  const { config } = readText('a.yaml', text);
  assert.deepEqual(config.parallel, {
    strategy: 'HYBRID_SHARD',
    wrap: 'root',
    mesh: { dpReplicate: 2, dpShard: 2 },
  });
});

test('DDP in half precision is torch.autocast: gradients are reduced in float32', () => {
  const { config } = readText(
    'a.yaml',
    'distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: fp16\n',
  );
  assert.deepEqual(config, {
    parallel: { strategy: 'NO_SHARD' },
    mixedPrecision: { paramDtype: 'float16', reduceDtype: 'float32' },
  });
});

test("Megatron-LM's plugin gives degrees, and degrees that do not divide the ranks are an error", () => {
  const text = (processes: number): string =>
    `distributed_type: MEGATRON_LM\nnum_processes: ${processes}\nmegatron_lm_config:\n  megatron_lm_tp_degree: 2\n  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 4\n  megatron_lm_use_distributed_optimizer: true\n  megatron_lm_recompute_activations: true\n  megatron_lm_gradient_clipping: 0.5\n`;
  const { config } = readText('a.yaml', text(8));
  assert.deepEqual(config, {
    parallel: { strategy: 'ZERO_1', tp: 2, pp: 2, microbatches: 4 },
    batch: 4,
    activationCheckpointing: 'selective',
    clipNorm: 0.5,
  });
  const wrong = readText('a.yaml', text(6));
  assert.match(
    whyOf(wrong, 'megatron_lm_config.megatron_lm_tp_degree'),
    /tp 2 x pp 2 = 4 ranks.*6 ranks are no multiple/,
  );
});

test('a file of DeepSpeed beside keys that it replaces is refused, as Accelerate does, and is read too', () => {
  const cwd = folderOf({
    'a.yaml':
      'distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n  zero_stage: 2\n',
    'ds.json': '{ "zero_optimization": { "stage": 3 }, "train_micro_batch_size_per_gpu": 2 }',
  });
  const reading = readConfig('a.yaml', { cwd });
  assert.equal(effects(reading)['deepspeed_config.zero_stage'], 'error');
  assert.deepEqual(
    reading.lines.filter(({ file }) => file === 'ds.json').map(({ key, line }) => [key, line]),
    [
      ['zero_optimization.stage', 1],
      ['train_micro_batch_size_per_gpu', 1],
    ],
  );
  const alone = readConfig('missing.yaml', {
    cwd: folderOf({
      'missing.yaml': 'distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: none.json\n',
    }),
  });
  assert.match(whyOf(alone, 'deepspeed_config.deepspeed_config_file'), /there is no file none\.json \(/);
});

test('TPUs and SageMaker are refused; what is off has no effect', () => {
  const reading = readText(
    'a.yaml',
    'distributed_type: MULTI_GPU\ntpu_use_cluster: true\nec2_instance_type: p4d\ncompute_environment: AMAZON_SAGEMAKER\n',
  );
  assert.deepEqual(effects(reading), {
    distributed_type: 'used',
    tpu_use_cluster: 'refused',
    ec2_instance_type: 'refused',
    compute_environment: 'refused',
  });
});

test('without a policy, FSDP has one unit, and keys of a policy have no effect', () => {
  const reading = readText('a.yaml', FSDP(2, '  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n'));
  assert.equal(reading.config.parallel?.wrap, 'root');
  assert.equal(effects(reading)['fsdp_config.fsdp_transformer_layer_cls_to_wrap'], 'warning');
  assert.match(whyOf(reading, 'distributed_type'), /without fsdp_auto_wrap_policy.* one unit/);
  const wrapped = readText('a.yaml', FSDP(2, '  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n'));
  assert.equal(wrapped.config.parallel?.wrap, 'blocks');
});

test('Accelerate reads fsdp_reshard_after_forward with version 2 only, and there as true or false', () => {
  const first = readText('a.yaml', FSDP(1, '  fsdp_reshard_after_forward: false\n'));
  assert.equal(first.config.parallel?.strategy, 'FULL_SHARD');
  assert.equal(effects(first)['fsdp_config.fsdp_reshard_after_forward'], 'warning');
  const second = readText('a.yaml', FSDP(2, '  fsdp_reshard_after_forward: FULL_SHARD\n'));
  assert.match(whyOf(second, 'fsdp_config.fsdp_reshard_after_forward'), /expected true or false/);
});

test('what stops Accelerate is an error: no kind of training, and keys that need others', () => {
  const untyped = readText('a.yaml', 'num_processes: 4\n');
  assert.match(whyOf(untyped, "(Accelerate's defaults)"), /stops at a file without distributed_type/);
  const sync = readText('a.yaml', FSDP(1, '  fsdp_sync_module_states: false\n'));
  assert.equal(effects(sync)['fsdp_config.fsdp_sync_module_states'], 'error');
  const both = '  fsdp_sync_module_states: false\n  fsdp_cpu_ram_efficient_loading: false\n';
  assert.notEqual(effects(readText('a.yaml', FSDP(1, both)))['fsdp_config.fsdp_sync_module_states'], 'error');
  const offload = readText('a.yaml', FSDP(2, '  fsdp_activation_checkpointing_offload: true\n'));
  assert.equal(effects(offload)['fsdp_config.fsdp_activation_checkpointing_offload'], 'error');
});

test('a machine has a number below the number of machines, and a port is at most 65535', () => {
  const reading = readText(
    'a.yaml',
    'distributed_type: MULTI_GPU\nnum_processes: 32\nnum_machines: 4\nmachine_rank: 4\nmain_process_port: 99999\n',
  );
  assert.match(whyOf(reading, 'machine_rank'), /from 0 to 3 \(num_machines: 4\), got 4/);
  assert.match(whyOf(reading, 'main_process_port'), /at most 65535/);
});

test('merge keys of YAML are merged, as other programs read them', () => {
  const { config } = readText(
    'a.yaml',
    'distributed_type: FSDP\nfsdp_config:\n  <<: &shared { fsdp_version: 2, fsdp_offload_params: true }\n  fsdp_reshard_after_forward: false\n',
  );
  assert.deepEqual(config.offload, { parameters: true });
  assert.equal(config.parallel?.strategy, 'SHARD_GRAD_OP');
});

test('words of YAML 1.1 are truth values, at which Accelerate stops if it asks for a precision', () => {
  const yaml = (precision: string) =>
    readText(
      'two.yaml',
      `compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nuse_cpu: yes\nmixed_precision: ${precision}\nnum_machines: 1\nnum_processes: 1\n`,
    );
  assert.equal(effects(yaml("'no'")).mixed_precision, 'used');
  assert.equal(effects(yaml('"no"')).mixed_precision, 'used');
  for (const word of ['no', 'No', 'off', 'false'])
    assert.match(
      whyOf(yaml(word), 'mixed_precision'),
      /Accelerate stops at false.*write mixed_precision: 'no'/,
    );
  assert.equal(yaml('no').config.parallel?.strategy, 'NO_SHARD', 'a bare NO is no kind of training');
});

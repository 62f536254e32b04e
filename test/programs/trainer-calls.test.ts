import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from './read-files';

// Objects of Accelerate, transformers, TRL and PEFT in scripts of Python.

test("Accelerate's plugin has the settings of its file", () => {
  const reading = readText(
    'train.py',
    `from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch.distributed.fsdp import BackwardPrefetch

plugin = FullyShardedDataParallelPlugin(
    fsdp_version=2,
    reshard_after_forward=False,
    auto_wrap_policy="transformer_based_wrap",
    transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
    cpu_offload=True,
    activation_checkpointing=True,
    state_dict_type="SHARDED_STATE_DICT",
)
accelerator = Accelerator(fsdp_plugin=plugin)
`,
  );
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'SHARD_GRAD_OP', wrap: 'blocks' },
    offload: { parameters: true },
    activationCheckpointing: 'full',
  });
});

test("an Accelerator has its own types and passes; its types replace those of the launcher's file", () => {
  const cwd = folderOf({
    'train.py': `from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin, ParallelismConfig

zero = DeepSpeedPlugin(zero_stage=2, gradient_clipping=0.5, offload_optimizer_device="cpu")
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4, deepspeed_plugin=zero, log_with="wandb")
`,
    'two.yaml':
      "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: 'fp16'\nnum_machines: 1\nnum_processes: 2\n",
  });
  const reading = readConfig('accelerate launch --config_file two.yaml train.py', { cwd });
  assert.equal(reading.world, 2);
  assert.deepEqual(reading.config, {
    parallel: { strategy: 'ZERO_2' },
    mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'float32' },
    accumulation: 4,
    clipNorm: 0.5,
    offload: { optimizer: true },
  });
  assert.equal(effects(reading)['Accelerator.log_with'], 'none');
  assert.match(whyOf(reading, 'Accelerator.deepspeed_plugin'), /has lines of its own/);
});

test('the mesh of a ParallelismConfig is that of a file; computed values are warnings', () => {
  const reading = readText(
    'train.py',
    `from accelerate import Accelerator
from accelerate.parallelism_config import ParallelismConfig

mesh = ParallelismConfig(dp_replicate_size=2, dp_shard_size=2, tp_size=2)
accelerator = Accelerator(parallelism_config=mesh, gradient_accumulation_steps=args.steps, split_batch=True)
`,
    8,
  );
  assert.deepEqual(reading.config.parallel, {
    mesh: { dpReplicate: 2, dpShard: 2 },
    strategy: 'HYBRID_SHARD',
    tp: 2,
  });
  assert.match(whyOf(reading, 'Accelerator.gradient_accumulation_steps'), /line 5 computes it/);
  assert.match(whyOf(reading, 'Accelerator.split_batch'), /did you mean "split_batches"/);
});

test("TrainingArguments has the Trainer's defaults, and PEFT's LoraConfig makes adapters", () => {
  const cwd = folderOf({
    'train.py': `from peft import LoraConfig, TaskType
from transformers import TrainingArguments
from transformers.trainer_utils import IntervalStrategy

lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], lora_dropout=0.05, bias="none", task_type=TaskType.CAUSAL_LM)
args = TrainingArguments(
    "out",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    learning_rate=2e-4,
    max_steps=100,
    bf16=True,
    fsdp=["full_shard", "auto_wrap"],
    fsdp_config={"min_num_params": 2000},
    gradient_checkpointing=True,
    save_strategy=IntervalStrategy.STEPS,
    push_to_hubb=False,
)
`,
  });
  const reading = readConfig('torchrun --nproc_per_node 4 train.py', { cwd });
  assert.deepEqual(reading.config, {
    lora: { r: 16, alpha: 32, dropout: 0.05, targets: ['q_proj', 'v_proj'] },
    batch: 4,
    accumulation: 2,
    optimizer: { lr: 2e-4, weightDecay: 0 },
    schedule: { kind: 'linear' },
    seed: 42,
    steps: 100,
    parallel: { strategy: 'FULL_SHARD', wrap: 'blocks' },
    mixedPrecision: { paramDtype: 'bfloat16' },
    activationCheckpointing: 'full',
  });
  assert.match(whyOf(reading, 'TrainingArguments.fsdp_config'), /line 14 computes it/);
  assert.match(whyOf(reading, 'TrainingArguments.push_to_hubb'), /did you mean "push_to_hub"/);
});

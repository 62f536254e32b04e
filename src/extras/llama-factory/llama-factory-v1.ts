import { isNothing, wholeOf, yesOf } from '../../programs';
import {
  ATTENTION,
  allNone,
  clip,
  type Dialect,
  decides,
  FIRST_ADAPTERS,
  type KeyTable,
  modelMeaning,
  none,
  number,
  place,
  refused,
  SEQUENCE,
  section,
  setting,
  TRAINING_ARGUMENTS,
  whole,
  wholeFromZero,
} from '../../programs/toolkit';

// LLaMA-Factory's YAML with the variable USE_V1. Source: src/llamafactory/v1/config.

const DISTRIBUTED: KeyTable = {
  name: decides('parallel.strategy', ({ value }) => {
    if (String(value) === 'deepspeed')
      return { effect: 'none', why: "DeepSpeed's settings are in the file of config_file" };
    return /^fsdp/.test(String(value))
      ? { sets: { 'parallel.strategy': 'FULL_SHARD' } }
      : { effect: 'refused', why: `nothing here trains by ${String(value)}; choose fsdp2 or deepspeed` };
  }),
  config_file: {
    ...none("DeepSpeed's JSON, which is read too"),
    mean: ({ value }) =>
      isNothing(value)
        ? { effect: 'none', why: 'is empty' }
        : { file: String(value), effect: 'used', why: 'is read too' },
  },
  dcp_path: none('run.load reads checkpoints'),
  ep_dispatcher: none('tokens travel to their experts by all-to-all here'),
  ep_size: setting('parallel.ep', whole),
};

const ADAPTERS: KeyTable = {
  name: decides('lora', ({ value }) =>
    String(value) === 'lora'
      ? { usual: { 'lora.r': 8, 'lora.alpha': 16, 'lora.targets': 'all-linear' } }
      : { effect: 'refused', why: `there are no adapters of kind ${String(value)} here; choose lora` },
  ),
  ...allNone(
    'is for freezing (here: frozen) or for exports (here: run.savePretrained)',
    'freeze_trainable_layers freeze_trainable_modules freeze_extra_modules export_dir export_size infer_dtype',
  ),
  adapter_name_or_path: FIRST_ADAPTERS,
  r: setting('lora.r', whole),
  lora_alpha: setting('lora.alpha', number),
  lora_dropout: setting('lora.dropout', number),
  target_modules: decides('lora.targets', ({ value }) => ({
    sets: { 'lora.targets': String(value) === 'all' ? 'all-linear' : [value].flat().map(String) },
  })),
  use_dora: decides('lora.useDora', ({ value }) => ({ sets: { 'lora.useDora': yesOf(value) } })),
};

/** Returns the row of a section that chooses a kind; only the usual kind is built here. */
const chosen = (why: string) =>
  refused(
    why,
    (value) =>
      isNothing(value) ||
      (typeof value === 'object' && value !== null && 'name' in value && String(value.name) === 'auto'),
  );

const PREFERENCES = 'is for training on preferences, which is not built here';

/** The newer form of LLaMA-Factory's YAML. */
export const LLAMA_FACTORY_V1: Dialect = {
  name: 'LLaMA-Factory v1',
  keys: {
    model: decides('model', modelMeaning),
    model_class: refused(
      'only language models can be read here',
      (value) => String(value) === 'llm',
      'is a language model',
    ),
    micro_batch_size: setting('batch', whole),
    global_batch_size: place('rows of all ranks per step', (value) =>
      isNothing(value) ? {} : { globalBatch: wholeOf(value) },
    ),
    cutoff_len: SEQUENCE,
    learning_rate: setting('optimizer.lr', number),
    max_steps: TRAINING_ARGUMENTS.max_steps ?? none(''),
    num_train_epochs: TRAINING_ARGUMENTS.num_train_epochs ?? none(''),
    max_grad_norm: setting('clipNorm', clip),
    seed: setting('seed', wholeFromZero),
    bf16: decides('mixedPrecision.paramDtype', ({ value }) => ({
      sets: { 'mixedPrecision.paramDtype': yesOf(value) ? 'bfloat16' : null },
    })),
    enable_activation_checkpointing: decides('activationCheckpointing', ({ value }) => ({
      sets: { activationCheckpointing: yesOf(value) ? 'full' : null },
    })),
    cp_size: setting('parallel.cp', whole),
    cp_mode: decides('parallel.cpKind', ({ value, other }) =>
      wholeOf(other('cp_size') ?? 1) > 1
        ? { sets: { 'parallel.cpKind': String(value) === 'ulysses' ? 'ulysses' : 'ring' } }
        : { effect: 'none', why: 'sequences are not divided' },
    ),
    dist_config: section(DISTRIBUTED),
    peft_config: section(ADAPTERS),
    flash_attn: ATTENTION,
    train_dataset: refused("is a list of data sets of LLaMA-Factory; write data: './file.jsonl'"),
    eval_dataset: none('write data.validation'),
    quant_config: chosen('weights are not quantized here'),
    kernel_config: none('kernels are fused here in any case'),
    init_config: none('models are built chunk by chunk here in any case'),
    optim_config: chosen('write optimizer.kind adamW, adam, adamW8bit, lion or sgd'),
    lr_scheduler_config: chosen('write schedule.kind'),
    batching_strategy: none('texts fill sequences without gaps here'),
    full_determinism: none('two runs with the same settings are equal to the bit here in any case'),
    ...allNone('follows from the number of ranks', 'dp_size mp_replicate_size mp_shard_size'),
    ...allNone('jobs here have collectives of their own', 'dist_timeout'),
    ...allNone(
      'rank and step decide which batch is read here',
      'batching_workers custom_chat_template trust_remote_code',
    ),
    ...allNone(
      'in a notebook, run.step(n, { saveSteps, outputDir }) saves; shardlab run has --save',
      'output_dir save_steps save_epochs save_ckpt_as_hf save_total_limit resume_from_checkpoint',
    ),
    ...allNone(
      'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
      'logging_steps report_to run_name',
    ),
    ...allNone('is for generating answers; run.sample does this here', 'sample_backend max_new_tokens'),
    stage: refused('only supervised fine-tuning is built here', (value) => String(value) === 'sft'),
    ...allNone(
      PREFERENCES,
      'pref_loss pref_beta pref_ftx simpo_gamma dpo_label_smoothing ld_alpha ref_model',
    ),
  },
  usual: () => ({
    usual: {
      batch: 1,
      'optimizer.lr': 1e-4,
      seed: 42,
      'parallel.strategy': 'NO_SHARD',
      activationCheckpointing: 'full',
      'mixedPrecision.paramDtype': 'bfloat16',
    },
    why: 'defaults that differ from ours',
  }),
};

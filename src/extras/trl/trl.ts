import { wholeOf, yesOf } from '../../programs';
import {
  ATTENTION,
  allNone,
  attentionSwitch,
  type Dialect,
  decides,
  fileKey,
  ifOn,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  ofFile,
  preferenceKeys,
  refused,
  SEQUENCE,
  TRAINER_DEFAULTS,
  TRAINING_ARGUMENTS,
  TRANSFORMERS,
} from '../../programs/toolkit';

// TRL's supervised fine-tuning: `trl sft`, its script sft.py, and YAML for both. Source: trl/trainer/sft_config.py and model_config.py.

const isLora = (other: KeyInput['other']): boolean =>
  other('use_peft') !== undefined && yesOf(other('use_peft'));

/** Settings of adapters; TRL makes adapters only with --use_peft. */
const adapter = (path: string, convert: (value: unknown) => unknown): KeyRow =>
  decides(path, ({ value, other }) =>
    isLora(other)
      ? { sets: { [path]: convert(value) } }
      : { effect: 'none', why: 'has no effect without use_peft, which makes adapters' },
  );

function targets(value: unknown): unknown {
  const names = [value].flat().map(String);
  return names.length === 1 && names[0] === 'all-linear' ? 'all-linear' : names;
}

/** The defaults of TRL's adapters; the targets are PEFT's for Llama, Mistral and Qwen. Source: peft/utils/constants.py. */
const LORA_DEFAULTS = {
  'lora.r': 16,
  'lora.alpha': 32,
  'lora.dropout': 0.05,
  'lora.targets': ['q_proj', 'v_proj'],
};

const ADAPTERS: KeyTable = {
  use_peft: decides('lora', ({ value }) =>
    yesOf(value)
      ? { effect: 'used', why: 'adapters (LoRA) train' }
      : { effect: 'none', why: 'all parameters train' },
  ),
  lora_r: adapter('lora.r', (value) => wholeOf(value)),
  lora_alpha: adapter('lora.alpha', Number),
  lora_dropout: adapter('lora.dropout', Number),
  lora_target_modules: adapter('lora.targets', targets),
  use_dora: ifOn(adapter('lora.useDora', yesOf)),
  use_rslora: refused('rank-stabilized LoRA is not built here; write lora.alpha'),
  lora_target_parameters: refused('write the names of modules as lora.targets'),
  lora_modules_to_save: refused('only adapters train with LoRA here; without use_peft, all parameters train'),
  lora_task_type: none('a model has one loss here'),
  load_in_4bit: refused('weights are not quantized here'),
  load_in_8bit: refused('weights are not quantized here'),
  ...allNone(
    'weights are not quantized here',
    'bnb_4bit_quant_type bnb_4bit_quant_storage use_bnb_nested_quant',
  ),
};

const SHARDLAB_SFT = 'is for conversations, on which shardlab sft trains';

const DATA: KeyTable = {
  max_length: SEQUENCE,
  max_seq_length: SEQUENCE,
  dataset_text_field: {
    ...ofFile('data.text'),
    mean: (input) =>
      input.value === 'text'
        ? { effect: 'none', why: 'is the column that is read here in any case' }
        : ofFile('data.text').mean(input),
  },
  ...allNone(
    SHARDLAB_SFT,
    'chat_template chat_template_path eos_token pad_token completion_only_loss assistant_only_loss dataset_kwargs',
  ),
  ...allNone(
    'texts fill sequences without gaps here; shardlab sft packs conversations with --packing',
    'packing packing_strategy padding_free pad_to_multiple_of eval_packing truncation_mode shuffle_dataset',
  ),
  ...allNone(
    'data is a local file here, without configurations or splits',
    'datasets dataset_train_split dataset_test_split dataset_streaming dataset_num_proc dataset_batch_size test_split_size',
  ),
};

const OTHER: KeyTable = {
  config: fileKey("TRL's YAML, which is read too"),
  env: none('variables of the other program'),
  attn_implementation: ATTENTION,
  use_flash_attention_2: attentionSwitch('flash'),
  gradient_checkpointing_use_reentrant: none('recomputation has one implementation here'),
  activation_offloading: decides('offload.activations', ({ value }) =>
    yesOf(value) ? { sets: { 'offload.activations': true } } : { effect: 'none', why: 'is off' },
  ),
  loss_type: refused(
    'the loss is the mean over tokens here; write a loss of your own',
    (value) => ['nll', 'chunked_nll'].includes(String(value)),
    'is the mean over tokens, like the loss here',
  ),
  neftune_noise_alpha: refused('noise in embeddings is not built here'),
  router_aux_loss_coef: none('write model.auxLossWeight'),
  ignore_bias_buffers: none('avoids errors of DDP in PyTorch'),
  model_init_kwargs: none('models are read from your own folders'),
  ...allNone('nothing is downloaded from a hub', 'model_code_revision base_model_revision'),
};

/** Arguments of TRL's other trainers, whose files have the same form as those of supervised fine-tuning. */
const PREFERENCES: KeyTable = Object.fromEntries(
  'beta max_prompt_length max_completion_length num_generations reward_funcs reward_model_path reward_weights desirable_weight undesirable_weight label_smoothing precompute_ref_log_probs ref_model_init_kwargs epsilon use_vllm vllm_mode'
    .split(' ')
    .map((name) => [
      name,
      refused('is for training on preferences or rewards, of which only DPO is built here: trl dpo'),
    ]),
);

/** Arguments of the scripts of alignment-handbook. */
const HANDBOOK: KeyTable = {
  ...Object.fromEntries(
    ['dataset_mixture', 'dataset_mixer'].map((name) => [
      name,
      refused("names data sets of a hub, and nothing is downloaded; write data: './file.jsonl'"),
    ]),
  ),
  ...allNone('data is a local file here, without configurations or splits', 'dataset_splits dataset_configs'),
  hub_model_revision: none('nothing is downloaded from a hub or sent to one'),
  ...allNone(
    'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
    'wandb_entity wandb_project benchmarks callbacks',
  ),
};

/** Arguments of SFTConfig. */
export const SFT_ARGUMENTS: KeyTable = { ...TRAINING_ARGUMENTS, ...DATA, ...OTHER };

/** TRL's trainer for supervised fine-tuning. */
export const TRL: Dialect = {
  name: 'TRL',
  keys: { ...TRANSFORMERS.keys, ...ADAPTERS, ...SFT_ARGUMENTS, ...PREFERENCES, ...HANDBOOK },
  usual: (other) => {
    const isHalf = ['bf16', 'fp16', 'mixed_precision'].every((key) => other(key) === undefined);
    return {
      ...TRAINER_DEFAULTS,
      usual: {
        ...TRAINER_DEFAULTS.usual,
        'optimizer.lr': 2e-5,
        activationCheckpointing: 'full',
        ...(isHalf && { 'mixedPrecision.paramDtype': 'bfloat16', 'mixedPrecision.reduceDtype': 'float32' }),
        ...(isLora(other) && LORA_DEFAULTS),
      },
      why: 'defaults of SFTConfig and ModelConfig',
    };
  },
};

/** TRL's `trl dpo`, whose other arguments are those of `trl sft`. Source: trl/trainer/dpo_config.py. */
const { dataset: PAIRS = none('names the data'), ...PREFERENCE_KEYS } = preferenceKeys(
  TRANSFORMERS.keys.dataset_name ?? none(''),
);

export const TRL_DPO: Dialect = {
  ...TRL,
  keys: {
    ...TRL.keys,
    ...PREFERENCE_KEYS,
    dataset_name: PAIRS,
    label_smoothing: refused(
      'TRL 1 reads it only with other losses than sigmoid; for conservative DPO write dpo.labelSmoothing',
      (value) => Number(value) === 0,
      'is 0',
    ),
    ...allNone(
      'rows have max_length tokens together, prompt and answer',
      'max_prompt_length max_completion_length',
    ),
  },
  usual: (argument) => {
    const { usual, ...others } = TRL.usual?.(argument) ?? {};
    return {
      ...others,
      usual: { ...usual, 'optimizer.lr': 1e-6, 'dpo.beta': 0.1 },
      why: 'defaults of DPOConfig and ModelConfig',
    };
  },
};

/** TRL's arguments; a script may have further arguments of its own. */
export const TRL_SCRIPT: Dialect = { ...TRL, hasOthers: true };

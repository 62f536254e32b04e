import { allNone, decides, isNothing, none, refused, settingKeys } from './key-row';
import { LLAMA_FACTORY_OTHER } from './llama-factory-keys';
import type { Dialect } from './meant';
import { modelMeaning } from './models';
import { DATA, TRAINER_DEFAULTS, TRAINING_ARGUMENTS } from './transformers';
import { wholeOf } from './values';

// LLaMA-Factory's YAML. Source: src/llamafactory/hparams.

const adapter = (path: string, convert: (value: unknown) => unknown) =>
  decides(path, ({ value, other }) =>
    String(other('finetuning_type') ?? 'lora') === 'lora'
      ? { sets: { [path]: convert(value) } }
      : { effect: 'none', why: 'has no effect without finetuning_type lora' },
  );

/** LLaMA-Factory's YAML and its command line. */
export const LLAMA_FACTORY: Dialect = {
  name: 'LLaMA-Factory',
  keys: {
    ...LLAMA_FACTORY_OTHER,
    ...TRAINING_ARGUMENTS,
    model_name_or_path: decides('model', modelMeaning),
    stage: refused('only pretraining and supervised fine-tuning are trained here', (value) =>
      ['pt', 'sft'].includes(String(value)),
    ),
    finetuning_type: decides('lora', ({ value }) => {
      if (String(value) === 'full') return { effect: 'used', why: 'all parameters train' };
      if (String(value) === 'lora')
        return { usual: { 'lora.r': 8, 'lora.alpha': 16, 'lora.targets': 'all-linear' } };
      return {
        effect: 'refused',
        why: `there is no fine-tuning of kind ${String(value)} here; choose lora or full`,
      };
    }),
    ...settingKeys('peft', {
      'lora.alpha': { lora_alpha: adapter('lora.alpha', Number) },
      'lora.dropout': { lora_dropout: adapter('lora.dropout', Number) },
    }),
    lora_rank: adapter('lora.r', (value) => wholeOf(value)),
    lora_target: adapter('lora.targets', (value) =>
      String(value) === 'all'
        ? 'all-linear'
        : [value]
            .flat()
            .flatMap((text) => String(text).split(','))
            .map((text) => text.trim()),
    ),
    dataset: DATA,
    dataset_dir: none('write data with a path'),
    eval_dataset: none('write data.validation'),
    val_size: decides('data.validation', ({ value }) => ({
      effect: 'none',
      why: isNothing(value) ? 'is off' : 'write data.validation with your own data',
    })),
    cutoff_len: decides('data.seq', ({ value }) => ({
      effect: 'none',
      why: `sequences have the model's seq; write model: { …, seq: ${String(value)} }`,
    })),
    flash_attn: decides('model.attention', ({ value }) => ({
      effect: 'none',
      why: `write model.attention '${/fa/.test(String(value)) ? 'flash' : 'eager'}'`,
    })),
    packing: none('texts fill sequences without gaps here in any case'),
    neat_packing: none('texts fill sequences without gaps here in any case'),
    ...allNone(
      'chat templates are not built here: texts of a file are trained as they are',
      'template default_system train_on_prompt mask_history enable_thinking',
    ),
    ...allNone(
      'batches are read by rank and step here',
      'max_samples overwrite_cache preprocessing_num_workers preprocessing_batch_size streaming tokenized_path buffer_size mix_strategy interleave_probs dataset_shards',
    ),
    ...allNone('run.log writes JSON lines and TensorBoard files', 'plot_loss use_swanlab swanlab_project'),
    ...allNone(
      'nothing is downloaded from a hub',
      'trust_remote_code cache_dir hf_hub_token ms_hub_token om_hub_token model_revision adapter_name_or_path use_fast_tokenizer resize_vocab',
    ),
    ...allNone(
      'models and adapters are as PEFT has them',
      'lora_bias additional_target modules_to_save create_new_adapter loraplus_lr_ratio use_unsloth enable_liger_kernel rope_scaling shift_attn upcast_layernorm upcast_lmhead_output disable_gradient_checkpointing use_reentrant_gc freeze_vision_tower freeze_multi_modal_projector image_max_pixels video_max_pixels predict_with_generate low_cpu_mem_usage infer_backend',
    ),
    pure_bf16: refused('master parameters are float32 here'),
    use_dora: refused('DoRA is not built here; LoRA is'),
    use_rslora: refused('rank-stabilized LoRA is not built here; write lora.alpha'),
    pissa_init: refused('adapters have their usual initial values here'),
    quantization_bit: refused('weights are not quantized here'),
    quantization_method: refused('weights are not quantized here'),
    use_galore: refused('GaLore is not built here'),
    use_badam: refused('BAdam is not built here'),
    pref_beta: refused('preferences are not trained here'),
    pref_loss: refused('preferences are not trained here'),
  },
  usual: () => TRAINER_DEFAULTS,
};

import { yesOf } from '../../programs';
import { allNone, type KeyTable, none, planSwitch, refused } from '../../programs/toolkit';

// Keys of TorchTitan that change nothing here, by section. Source: torchtitan/config/job_config.py before the settings became Python.

const LOGS = 'run.log writes JSON lines; nothing is written for TensorBoard or other loggers';
const PROFILES = 'ledgers and figures show time and memory here';
const SAVES = 'in a notebook, run.step(n, { saveSteps, outputDir }) saves; shardlab run has --save';

/** Sections with the keys that have no effect here; names of older versions are among them. */
export const TORCHTITAN_WITHOUT_EFFECT = {
  job: allNone(
    'names the job and where it writes',
    'dump_folder description print_args print_config save_config_file custom_config_module custom_args_module use_for_integration_test',
  ),
  profiling: allNone(
    PROFILES,
    'enable_profiling save_traces_folder profile_freq profiler_active profiler_warmup enable_memory_snapshot save_memory_snapshot_folder',
  ),
  metrics: allNone(
    LOGS,
    'log_freq enable_tensorboard disable_color_printing save_tb_folder save_for_all_ranks rank_0_only enable_wandb enable_color_printing',
  ),
  model: allNone(
    'tokenizers and weights are read from your own folders: write data.tokenizer and model: { from: FOLDER }',
    'hf_assets_path tokenizer_path print_after_conversion norm_type',
  ),
  training: allNone(
    'rank and step decide which batch is read here',
    'gc_freq gc_debug deterministic dataloader data_parallel_type',
  ),
  parallelism: {
    ...allNone(
      'a pipeline here divides its layers as parallel.stageSplit says',
      'module_fqns_per_model_part pipeline_parallel_split_points pipeline_parallel_schedule_csv pipeline_parallel_expert_parallel_overlap',
    ),
    enable_async_tensor_parallel: planSwitch(
      'asyncTensorParallel',
      ['messages of tensor parallelism overlap with its matmuls', 'is off'],
      yesOf,
    ),
    ...allNone(
      'messages run beside computation here in any case',
      'disable_loss_parallel enable_compiled_autograd context_parallel_load_balancer context_parallel_rotate_method expert_tensor_parallel_degree expert_parallel_comm_backend',
    ),
  },
  checkpoint: allNone(
    SAVES,
    'enable enable_checkpoint enable_ft_dataloader_checkpoints folder interval interval_type initial_load_path initial_load_model_only initial_load_in_hf initial_load_in_hf_quantized initial_load_dequantize last_save_model_only last_save_in_hf model_weights_only export_dtype async_mode keep_latest_k load_step exclude_from_loading enable_first_step_checkpoint create_seed_checkpoint load_only',
  ),
  activation_checkpoint: {
    ...allNone(
      'recomputation has one implementation here',
      'per_op_sac_force_recompute_mm_shapes_by_fqns early_stop memory_budget visualize_memory_budget_pareto preserve_rng_state determinism_check debug',
    ),
  },
  comm: allNone(
    'jobs here have collectives of their own',
    'init_timeout_seconds train_timeout_seconds trace_buf_size save_traces_folder save_traces_file_prefix mode',
  ),
  memory_estimation: allNone('shardlab plan estimates memory', 'enable enabled disable_fake_mode'),
  fault_tolerance: {
    enable: refused('a job here ends as soon as one of its ranks ends; run.load continues the training'),
    ...allNone(
      'is for fault tolerance, which is off here',
      'process_group process_group_timeout_ms replica_id group_size min_replica_size semi_sync_method',
    ),
  },
  experimental: {
    ...allNone(
      'imports Python code of your own',
      'custom_import custom_args_module custom_model_path context_parallel_degree enable_async_tensor_parallel enable_compiled_autograd',
    ),
  },
  validation: allNone(
    'in a notebook, run.evaluate() and run.step(n, { evalSteps }) evaluate',
    'enable dataset dataset_path local_batch_size seq_len freq steps dataloader',
  ),
  debug: {
    deterministic: none('two runs with the same settings are equal to the bit here in any case'),
    deterministic_warn_only: none('two runs with the same settings are equal to the bit here in any case'),
    moe_force_load_balance: none('experts are chosen as model.router says'),
  },
} as const satisfies Readonly<Record<string, KeyTable>>;

import { allNone, decides, flag, type KeyTable, none } from '../rows/key-row';
import { strategyOfStage } from '../rows/values';
import { fileKey } from './transformers';

const FILE = fileKey("DeepSpeed's JSON, which is read too");

/** Arguments that deepspeed.add_config_arguments adds to a script; the value of transformers' --deepspeed is the file. */
export const DEEPSPEED_ARGUMENTS: KeyTable = {
  deepspeed: {
    ...FILE,
    mean: (asked) =>
      typeof asked.value === 'boolean'
        ? { effect: 'none', why: 'DeepSpeed trains, as the file of deepspeed_config says' }
        : FILE.mean(asked),
  },
  deepspeed_config: FILE,
  ...allNone('is the old form of an argument of DeepSpeed', 'deepscale deepscale_config'),
  deepspeed_mpi: flag(none('how processes find each other before they train')),
};

/** Arguments that Megatron-DeepSpeed adds to those of Megatron-LM. Source: deepspeedai/Megatron-DeepSpeed, megatron/arguments.py. */
export const MEGATRON_DEEPSPEED_ARGUMENTS: KeyTable = {
  ...DEEPSPEED_ARGUMENTS,
  zero_stage: decides('parallel.strategy', ({ value }) => ({
    sets: { 'parallel.strategy': strategyOfStage(value) },
  })),
  ...Object.fromEntries(
    ['deepspeed_activation_checkpointing', 'checkpoint_activations'].map((key) => [
      key,
      flag(decides('activationCheckpointing', () => ({ sets: { activationCheckpointing: 'full' } }))),
    ]),
  ),
  no_pipeline_parallel: flag(
    none('without --pipeline-model-parallel-size, the model is not cut into stages here'),
  ),
};

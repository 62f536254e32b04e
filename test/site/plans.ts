/** Ten plans of different kinds, as settings of a config with the keys of its place. */
export const PLANS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'dense, FSDP': {
    ...{ model: 'llama3-8b', on: 'H100-80G', gpus: 64, batch: 2 },
    activationCheckpointing: 'selective',
  },
  'mixture of experts': {
    ...{ model: 'Mixtral-8x7B', on: 'H100-80G', gpus: 64, stack: 'megatron' },
    parallel: { strategy: 'ZERO_1', ep: 8 },
    activationCheckpointing: 'full',
    dispatcher: 'deepep',
  },
  'TP and PP, Megatron-LM': {
    ...{ model: 'llama3-70b', on: 'H100-80G', gpus: 128, batch: 16, stack: 'megatron' },
    parallel: { strategy: 'ZERO_1', tp: 8, pp: 4, microbatches: 16, schedule: '1f1b' },
    activationCheckpointing: 'selective',
  },
  'GPT, DDP': {
    model: 'gpt2-xl',
    on: 'A100-40G',
    gpus: 8,
    parallel: { strategy: 'NO_SHARD' },
    accumulation: 4,
  },
  'ZeRO-3, DeepSpeed': {
    ...{ model: 'gpt3-175b', on: 'A100-80G', gpus: 512, nicGbit: 100, stack: 'deepspeed' },
    activationCheckpointing: 'full',
  },
  HYBRID_SHARD: {
    ...{ model: 'llama2-13b', on: 'A100-80G', gpus: 32, compile: true },
    parallel: { strategy: 'HYBRID_SHARD' },
  },
  'TP and PP, FSDP2, fp8': {
    ...{ model: 'qwen2.5-32b', on: 'H100-80G', gpus: 64, batch: 8, fp8: true },
    parallel: { tp: 4, pp: 2, microbatches: 8 },
    activationCheckpointing: 'full',
  },
  offload: {
    ...{ model: 'llama3-8b', on: 'L40S-48G', gpus: 4, gpusPerNode: 4, optimizer: { kind: 'adam', lr: 2e-5 } },
    offload: { parameters: true },
    activationCheckpointing: 'full',
  },
  'long sequence': {
    ...{ model: { like: 'llama3-8b', seq: 131_072 }, on: { like: 'H100-80G', memoryGB: 96 }, gpus: 64 },
    parallel: { cp: 8, cpKind: 'ring' },
    activationCheckpointing: 'full',
  },
  'does not fit': { model: 'llama3-70b', on: 'A100-80G', gpus: 8 },
};

/** Frameworks that run a layout. The framework decides the types of stored values, and what is fused and overlapped. */
export const STACKS = [
  /** Megatron-LM: fp16/bf16 parameters, fp32 main gradients, tensor and pipeline parallelism, fused softmax and GELU. */
  'megatron',
  /** PyTorch's fully_shard, parallelize_module and pipelining, as TorchTitan combines them. */
  'fsdp2',
  /** DeepSpeed's ZeRO stages. */
  'deepspeed',
] as const;

export type Stack = (typeof STACKS)[number];

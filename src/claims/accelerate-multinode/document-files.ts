/** The document's settings for machine 0 of 4 with 8 GPUs each; the document masks the address. */
export const ACCELERATE_YAML = `compute_environment: LOCAL_MACHINE
debug: false
deepspeed_config:
  deepspeed_multinode_launcher: standard
  gradient_accumulation_steps: 1
  gradient_clipping: 1.0
  offload_optimizer_device: cpu
  offload_param_device: cpu
  zero3_init_flag: true
  zero_stage: 2
distributed_type: DEEPSPEED
downcast_bf16: 'no'
dynamo_config:
  dynamo_backend: INDUCTOR
  dynamo_mode: default
  dynamo_use_dynamic: true
  dynamo_use_fullgraph: true
  dynamo_use_regional_compilation: true
enable_cpu_affinity: false
machine_rank: 0
main_process_ip: '10.233.xx.xx'
main_process_port: 12345
main_training_function: main
mixed_precision: bf16
num_machines: 4
num_processes: 32
rdzv_backend: static
same_network: false
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
`;

const EXPERT = 'models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model';

/** The document's --model_paths. */
export const MODEL_PATHS: readonly (string | readonly string[])[] = [
  [1, 2, 3, 4, 5, 6].map((part) => `${EXPERT}-0000${part}-of-00006.safetensors`),
  'models/Wan2.2-I2V-A14B/models_t5_umt5-xxl-enc-bf16.pth',
  'models/Wan2.1-T2V-1.3B/Wan2.1_VAE.pth',
];

/** The document's environment for NCCL. */
export const NCCL_ENV = {
  NCCL_DEBUG: 'INFO',
  NCCL_DEBUG_SUBSYS: 'ALL',
  NCCL_SOCKET_IFNAME: 'eth0',
  NCCL_IB_DISABLE: '0',
  NCCL_IB_GID_INDEX: '3',
} as const;

#!/usr/bin/env bash
# Run on machine 0 of 4, in this folder on a volume that all machines mount: MAIN=address-of-machine-0 ./launch_0.sh
set -euo pipefail
cd "$(dirname "$0")"
export NCCL_DEBUG=INFO
export NCCL_DEBUG_SUBSYS=ALL
export NCCL_SOCKET_IFNAME=eth0
export NCCL_IB_DISABLE=0
export NCCL_IB_GID_INDEX=3
DIFFSYNTH=${DIFFSYNTH:-DiffSynth-Studio}
: "${MAIN:?the address of machine 0, in place of 10.233.xx.xx, which all machines reach on port 12345}"
PORT=${PORT:-12345}
if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
  echo "port $PORT is in use on this machine; choose another: PORT=29501, for all machines" >&2
  exit 1
fi
exec accelerate launch --config_file accelerate_0.yaml --main_process_ip "$MAIN" --main_process_port "$PORT" "$DIFFSYNTH/examples/wanvideo/model_training/train.py" \
  --dataset_base_path example_video_dataset \
  --dataset_metadata_path example_video_dataset/metadata.csv \
  --height 480 \
  --width 832 \
  --num_frames 49 \
  --dataset_repeat 100 \
  --model_paths '[["models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model-00001-of-00006.safetensors","models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model-00002-of-00006.safetensors","models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model-00003-of-00006.safetensors","models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model-00004-of-00006.safetensors","models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model-00005-of-00006.safetensors","models/Wan2.2-I2V-A14B/high_noise_model/diffusion_pytorch_model-00006-of-00006.safetensors"],"models/Wan2.2-I2V-A14B/models_t5_umt5-xxl-enc-bf16.pth","models/Wan2.1-T2V-1.3B/Wan2.1_VAE.pth"]' \
  --learning_rate 0.00001 \
  --num_epochs 2 \
  --remove_prefix_in_ckpt pipe.dit. \
  --output_path checkpoint/high_noise_model \
  --trainable_models dit \
  --extra_inputs input_image \
  --use_gradient_checkpointing_offload \
  --max_timestep_boundary 0.358 \
  --min_timestep_boundary 0 \
  --weight_decay 0.01 \
  --gradient_accumulation_steps 1

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readText } from './read-files';

test('a Slurm script: nodes, exports, variables, arrays, and srun with torchrun', () => {
  const reading = readText(
    'job.sbatch',
    `#!/usr/bin/env bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1 # one launcher
#SBATCH --gpus-per-node=4
#SBATCH -J gpt
set -euo pipefail
GPUS=4
TP=2
export CUDA_DEVICE_MAX_CONNECTIONS=1
MAIN=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MODEL_ARGS=(
  --num-layers 24 # layers
  --hidden-size 1024 --num-attention-heads 16
  --seq-length 2048
)
PARALLEL="--tensor-model-parallel-size $TP --pipeline-model-parallel-size 2"
srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=\${GPUS:-8} --rdzv-endpoint="$MAIN:29500" \\
  pretrain_gpt.py "\${MODEL_ARGS[@]}" $PARALLEL --global-batch-size 16 --micro-batch-size 4 --bf16 --use-distributed-optimizer --lr 3e-4
`,
  );
  assert.equal(reading.machines, 2);
  assert.equal(reading.world, 8);
  assert.deepEqual(reading.config.model, {
    kind: 'gpt',
    vocab: 51_200,
    attention: 'flash',
    tied: true,
    layers: 24,
    dim: 1024,
    heads: 16,
    seq: 2048,
  });
  assert.equal(reading.config.parallel?.strategy, 'ZERO_1');
  assert.deepEqual([reading.config.parallel?.tp, reading.config.parallel?.pp], [2, 2]);
  assert.equal(reading.lines.find(({ key }) => key === '--num-layers')?.line, 12);
  assert.equal(reading.lines.find(({ key }) => key === '--nodes')?.line, 2);
  assert.ok(
    reading.lines.every(({ effect }) => effect !== 'error'),
    JSON.stringify(reading.lines.filter(({ effect }) => effect === 'error')),
  );
});

test('the tasks of a Slurm job are ranks if no launcher starts them', () => {
  const reading = readText(
    'job.sh',
    '#SBATCH --nodes 2\n#SBATCH --ntasks-per-node=8\nsrun python train.py --per_device_train_batch_size 1\n',
  );
  assert.equal(reading.world, 16);
});

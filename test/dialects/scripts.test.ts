import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/dialects/read';
import { effects, readText, whyOf } from './read-files';

test("arithmetic and Slurm's variables have their values; the output of other commands is not known", () => {
  const reading = readText(
    'job.slurm',
    `#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gres=gpu:2 # GPUs of a node
export GPUS_PER_NODE=2
head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
LAUNCHER="accelerate launch --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) --num_machines $SLURM_NNODES \\
  --main_process_ip $head --main_process_port 29500 --use_fsdp"
srun $LAUNCHER train.py --gradient_accumulation_steps $(expr 16 / $GPUS_PER_NODE) --my_flag 3
`,
  );
  assert.deepEqual([reading.world, reading.machines], [8, 4]);
  assert.equal(reading.config.accumulation, 8);
  assert.equal(reading.config.parallel?.strategy, 'FULL_SHARD');
  assert.equal(effects(reading)['--main_process_ip'], 'warning');
  assert.ok(reading.lines.every(({ effect }) => effect !== 'error'));
});

test('an argument of a script that nobody knows is its own; one that looks misspelled is a warning', () => {
  const reading = readConfig(
    'torchrun --nproc_per_node 2 train.py --num_frames_of_mine 3 --learning_rat 1e-4',
  );
  assert.equal(effects(reading)['--num_frames_of_mine'], 'none');
  assert.match(whyOf(reading, '--num_frames_of_mine'), /the script itself/);
  assert.equal(effects(reading)['--learning_rat'], 'warning');
  assert.match(whyOf(reading, '--learning_rat'), /did you mean "learning_rate"/);
});

test("a pipeline's rows per step become rows per rank and microbatches", () => {
  const { config, world } = readConfig(
    'torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 32',
  );
  assert.equal(world, 16);
  assert.equal(config.batch, 16, '32 rows over 2 data-parallel ranks');
  assert.equal(config.parallel?.microbatches, 8);
});

test('quotes, continued lines, comments, arrays, environment before a command, and redirections', () => {
  const reading = readText(
    'train.sh',
    `#!/bin/bash
ARGS=(
  --max_steps 5   # steps
  --run_name 'a "quoted" name'
)
if [ -n "$X" ]; then echo no; fi
OMP_NUM_THREADS=1 torchrun \\
  --standalone --nproc_per_node=\${GPUS:-2} \\
  train.py "\${ARGS[@]}" --bf16 > log.txt 2>&1 &
wait
`,
  );
  assert.equal(reading.world, 2);
  assert.equal(reading.config.steps, 5);
  assert.equal(reading.lines.find(({ key }) => key === '--run_name')?.value, 'a "quoted" name');
  assert.equal(reading.lines.find(({ key }) => key === '--max_steps')?.line, 3);
  assert.equal(reading.lines.find(({ key }) => key === '--bf16')?.line, 9);
  assert.equal(effects(reading).OMP_NUM_THREADS, 'none');
  assert.equal(
    reading.lines.find(({ value }) => String(value).includes('log.txt')),
    undefined,
  );
});

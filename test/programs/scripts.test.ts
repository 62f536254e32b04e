import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from './read-files';

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

const LAUNCH = 'torchrun --nproc_per_node 2 train.py --bf16 --max_steps 5';

test('blanks of other alphabets, byte order marks and line ends of other systems end no reading', () => {
  assert.equal(readText('a.sh', `\uFEFF#!/bin/bash\r\n${LAUNCH}\r\n`).config.steps, 5);
  assert.equal(readText('b.sh', `${LAUNCH}\recho done\r`).config.steps, 5);
  const pasted = readText('c.sh', 'torchrun --nproc_per_node\u00A02 train.py\u3000--bf16\f\n');
  assert.equal(effects(pasted)['--nproc_per_node\u00A02'] ?? 'none', 'none');
  assert.equal(readText('d.toml', '\uFEFF[training]\nsteps = 300\n').config.steps, 300);
});

test('here-documents are texts, unless a shell reads them; an apostrophe in one hides nothing', () => {
  const text = `cat <<EOT > notes.txt\nDon't stop: torchrun needs it's port\nEOT\n${LAUNCH}\n`;
  const reading = readText('a.sh', text);
  assert.equal(reading.config.steps, 5);
  assert.equal(reading.lines.find(({ key }) => key === '--max_steps')?.line, 4);
  assert.equal(readText('b.sh', `sbatch <<'EOF'\n#SBATCH -N 1\n${LAUNCH}\nEOF\n`).config.steps, 5);
});

test('a quote without an end, and a blank after a backslash, are warnings with their lines', () => {
  const open = readText(
    'a.sh',
    'echo begin\ntorchrun --nproc_per_node 2 train.py --run_name "my run --bf16\n',
  );
  assert.match(whyOf(open, 'quote'), /never closed/);
  assert.equal(open.lines.find(({ key }) => key === 'quote')?.line, 2);
  const cut = readText('b.sh', 'torchrun --nproc_per_node 2 \\ \n  train.py --bf16\n');
  assert.match(whyOf(cut, 'backslash'), /followed by blanks.*delete the blanks/);
});

test('a placeholder in angle brackets is no redirection', () => {
  const reading = readText('a.sh', `torchrun --nnodes 2 --master_addr=<MASTER_IP> ${LAUNCH.slice(9)}\n`);
  assert.match(whyOf(reading, '--master_addr'), /placeholder address.*<MASTER_IP>/);
  assert.equal(reading.config.steps, 5);
});

test('a launch after other programs, and within bash -c, is read', () => {
  const starts = ['uv run', 'conda run -n torch', 'timeout 1h numactl --cpunodebind=0', 'srun --label'];
  for (const start of starts) assert.equal(readText('a.sh', `${start} ${LAUNCH}\n`).config.steps, 5, start);
  const inner = readText(
    'b.sh',
    `GPUS=4\nsrun --nodes 2 bash -c 'cd x\ntorchrun --nproc_per_node $GPUS t.py'\n`,
  );
  assert.equal(inner.world, 8);
  assert.equal(inner.lines.find(({ key }) => key === '--nproc_per_node')?.line, 3);
});

test('a script that launches nothing is refused, and names the scripts that it runs', () => {
  assert.throws(() => readText('empty.sh', ''), /empty\.sh launches no training/);
  assert.throws(() => readText('a.sh', 'cd /x\nbash b.sh 4\n'), /it runs b\.sh; name that script/);
  assert.throws(() => readText('c.sh', 'a\0b'), /c\.sh is no text/);
  assert.throws(() => readText('d.sh', '#'.repeat(2 ** 20 + 1)), /too long for a config/);
});

test("srun's options without a value, and values without a blank before them, are read", () => {
  const reading = readText('a.sh', `srun -N2 -n4 -l -u --exclusive ${LAUNCH}\n`);
  assert.deepEqual([reading.world, reading.machines, reading.config.steps], [4, 2, 5]);
  assert.ok(reading.lines.every(({ effect }) => effect !== 'error'));
});

test('the tasks of a Slurm job are ranks, whether a line has all of them or those of a machine', () => {
  const world = (options: string): unknown =>
    readText('a.sh', `srun ${options} python train.py --bf16\n`).world;
  assert.equal(world('-N 2 -n 16'), 16);
  assert.equal(world('--nodes=2 --ntasks=16 --ntasks-per-node=8'), 16);
});

test('eval runs the command of a variable, and folders of commands are the current one or that of the script', () => {
  const cwd = folderOf({
    'run/train.sh': `#!/bin/bash
base_dir=\`pwd\`
CMD="NCCL_DEBUG=INFO deepspeed --num_gpus=4 train.py \\
  --deepspeed --preln \\
  --deepspeed_config $base_dir/ds.json"
echo $CMD
eval $CMD
`,
    'run/quoted.sh': `cmd="torchrun --nproc_per_node 2 train.py --deepspeed $(dirname "$0")/ds.json"\neval "$cmd"\n`,
    'run/ds.json': '{ "train_micro_batch_size_per_gpu": 2, "zero_optimization": { "stage": 1 } }',
  });
  const reading = readConfig('run/train.sh', { cwd });
  assert.equal(reading.world, 4);
  assert.deepEqual(reading.config, { batch: 2, parallel: { strategy: 'ZERO_1' } });
  assert.equal(effects(reading)['--deepspeed'], 'none');
  const quoted = readConfig('run/quoted.sh', { cwd });
  assert.deepEqual([quoted.world, quoted.config.parallel?.strategy], [2, 'ZERO_1']);
});

test('a script that nobody knows keeps its arguments, although some have names of Megatron-LM', () => {
  const reading = readConfig(
    'deepspeed --num_gpus 2 cifar.py --epochs 5 --moe --num-experts 4 --ep-world-size 2 --seed 1',
  );
  assert.deepEqual(
    reading.lines.filter(({ effect }) => effect === 'error'),
    [],
  );
  const megatron = readConfig('deepspeed pretrain_gpt.py --num-layers 2 --hidden-size 8 --deepspeed');
  assert.equal(effects(megatron)['--deepspeed'], 'none');
});

test("a hostfile may have any name; a model's config.json is refused", () => {
  const cwd = folderOf({
    'hosts.txt': 'node1 slots=4\nnode2 slots=4\n',
    'model/config.json':
      '{ "architectures": ["BertForMaskedLM"], "hidden_size": 8, "num_attention_heads": 2 }',
  });
  assert.equal(readConfig('deepspeed --hostfile hosts.txt train.py', { cwd }).world, 8);
  assert.throws(() => readConfig('model/config.json', { cwd }), /sizes of a model.*\{ from: 'model' \}/);
});

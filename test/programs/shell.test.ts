import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, readText, whyOf } from './read-files';

const LAUNCH = 'torchrun --nproc_per_node 2 pretrain_gpt.py';

/** Reads a script whose launch has Megatron-LM's arguments. */
const script = (text: string) => readText('train.sh', `#!/bin/bash\n${text}\n`);

test('an array has its quoted words, without comments; without quotes, its words are split at blanks', () => {
  const reading = script(`ARGS=(
  "--micro-batch-size" "4" # rows
  "--lr 3e-4" \\
  # a comment
  '--clip-grad' 1.0
)
${LAUNCH} \${ARGS[@]}`);
  assert.equal(reading.config.batch, 4);
  assert.equal(reading.config.optimizer?.lr, 3e-4);
  assert.equal(reading.config.clipNorm, 1);
  assert.equal(reading.lines.find(({ key }) => key === '--lr')?.line, 4);
});

test('quotes keep the blanks of words of an array', () => {
  const reading = script(`ARGS=("--lr 3e-4")\n${LAUNCH} "\${ARGS[@]}"`);
  assert.equal(reading.config.optimizer?.lr, undefined);
  assert.equal(effects(reading)['--lr 3e-4'], 'error');
});

test('+= adds to an array and to a text', () => {
  const reading = script(
    `ARGS=(--lr 3e-4)\nARGS+=(--clip-grad 0.5)\nMORE="--micro-batch-size 2"\nMORE+=" --seed 7"\n${LAUNCH} "\${ARGS[@]}" $MORE`,
  );
  assert.equal(reading.config.optimizer?.lr, 3e-4);
  assert.equal(reading.config.clipNorm, 0.5);
  assert.equal(reading.config.batch, 2);
  assert.equal(reading.config.seed, 7);
});

test('of several branches of an if, the first that sets a variable is read, and the other is named', () => {
  const reading = script(`if [[ "$1" == "small" ]]; then
  ARGS=(--micro-batch-size 1)
  if true; then LR=1e-4; else LR=2e-4; fi
elif [[ "$1" == "large" ]]; then
  ARGS=(--micro-batch-size 8)
else
  ARGS=(--micro-batch-size 16)
  LR=4e-4
  EXTRA="--seed 3"
fi
${LAUNCH} "\${ARGS[@]}" --lr $LR $EXTRA`);
  assert.equal(reading.config.batch, 1);
  assert.equal(reading.config.optimizer?.lr, 1e-4);
  assert.equal(reading.config.seed, 3, 'no earlier branch sets it');
  const others = reading.lines.filter(({ key }) => key === 'else');
  assert.deepEqual(
    others.map(({ line, value, effect }) => [line, value, effect]),
    [
      [4, 'LR', 'none'],
      [6, 'ARGS', 'none'],
      [8, 'ARGS', 'none'],
      [9, 'LR', 'none'],
    ],
  );
});

test('a default in quotes has no quotes', () => {
  assert.equal(script(`torchrun --nnodes \${NNODES:-"2"} --nproc_per_node \${GPUS:-'4'} train.py`).world, 8);
});

test('a launch in an exported variable is read; other commands and pipes are the own of the shell', () => {
  const reading = script(`export GPUS_PER_NODE=4
head_node=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
ps aux | grep python | wc -l
export LAUNCHER="accelerate launch \\
  --num_processes $((2 * GPUS_PER_NODE)) \\
  --num_machines 2 \\
  --main_process_ip $head_node \\
  "
export CMD="$LAUNCHER train.py --seed 5"
srun $CMD`);
  assert.equal(reading.world, 8);
  assert.equal(reading.machines, 2);
  assert.deepEqual(
    reading.lines.filter(({ effect }) => effect === 'error'),
    [],
  );
  for (const key of ['ps', 'grep', 'wc', 'LAUNCHER']) assert.equal(effects(reading)[key], 'none', key);
  assert.match(whyOf(reading, 'grep'), /does not launch a training/);
});

test("srun's short and long options stand before torchrun's", () => {
  const reading = readConfig(
    'srun -p gpu -n 8 -N 8 --ntasks-per-node=1 --gpus-per-task=8 torchrun --nproc_per_node 8 --rdzv_endpoint host-0:29500 ./train.py --own 3',
  );
  assert.equal(reading.world, 64);
  const by = effects(reading);
  assert.equal(by['-N'], 'planned');
  assert.equal(by['--gpus-per-task'], 'exported');
  assert.equal(by['--own'], 'none');
  assert.match(whyOf(reading, '--own'), /argument of the script itself/);
});

test('an argument of an unknown script that looks like one of transformers is a warning', () => {
  const reading = readConfig('deepspeed train_mem.py --group_by_modality_length True --seed 3');
  assert.equal(effects(reading)['--group_by_modality_length'], 'warning');
  assert.match(whyOf(reading, '--group_by_modality_length'), /or did you mean "group_by_length"/);
  assert.equal(reading.config.batch, undefined, 'no argument is of the Trainer alone');
});

test("swift's command is its file too, and swift rlhf is refused in one line", () => {
  const asked = (command: string) => readConfig(`${command} --model Qwen/Qwen-7B --train_type lora`);
  const direct = asked('swift sft').config;
  assert.deepEqual(asked('accelerate launch swift/cli/sft.py').config, direct);
  // swift fills up a step to 16 rows of all ranks.
  const onTwo = { ...direct, accumulation: 8 };
  assert.deepEqual(asked('torchrun --nproc_per_node 2 swift/cli/sft.py').config, onTwo);
  const rlhf = readConfig('swift rlhf --rlhf_type grpo --reward_funcs accuracy --model Qwen/Qwen-7B');
  assert.deepEqual(
    rlhf.lines.map(({ key, effect }) => [key, effect]),
    [['swift rlhf', 'refused']],
  );
  assert.deepEqual(rlhf.config, {});
});

test('swift rlhf and trl dpo train on pairs, and other kinds and losses are refused', () => {
  const asked =
    'swift rlhf --rlhf_type dpo --model tiny --dataset pairs.jsonl --beta 0.3 --label_smoothing 0.1';
  const { config } = readConfig(asked);
  assert.deepEqual(config.dpo, { beta: 0.3, labelSmoothing: 0.1 });
  assert.deepEqual(config.data, { preferences: 'pairs.jsonl' });
  assert.deepEqual(readConfig('swift rlhf --model tiny --dataset pairs.jsonl').config.dpo, { beta: 0.1 });
  const trl = readConfig('trl dpo --model_name_or_path gpt2 --dataset_name pairs.jsonl').config;
  assert.deepEqual(
    [trl.dpo, trl.data, trl.optimizer?.lr],
    [{ beta: 0.1 }, { preferences: 'pairs.jsonl' }, 1e-6],
  );
  for (const [line, key] of [
    [`${asked} --rpo_alpha 1`, '--rpo_alpha'],
    [`${asked} --ref_model other`, '--ref_model'],
    [`${asked} --loss_type ipo`, '--loss_type'],
    [`${asked} --ref_adapters other`, '--ref_adapters'],
    [`${asked} --loss_weights 1 2`, '--loss_weights'],
    [`${asked} --f_divergence_type js_divergence`, '--f_divergence_type'],
    [`trl dpo --model_name_or_path gpt2 --dataset_name p.jsonl --reference_free true`, '--reference_free'],
    ['swift rlhf --rlhf_type kto --model tiny', 'swift rlhf'],
    ['swift rlhf --rlhf_type=rm --model tiny', 'swift rlhf'],
    ['megatron rlhf --rlhf_type dpo', 'megatron rlhf'],
    ['trl kto --model_name_or_path gpt2', 'trl kto'],
  ] as const)
    assert.equal(effects(readConfig(line))[key], 'refused', line);
  assert.equal(effects(readConfig(`${asked} --ref_model tiny --ld_alpha 1`))['--ref_model'], 'none');
});

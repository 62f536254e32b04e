import assert from 'node:assert/strict';
import { test } from 'node:test';
import { effects, readText, whyOf } from './read-files';

// Forms that occur in 2,054 public launch scripts and files of settings, and were read wrongly.

const SIZES = '--num-layers 40 --hidden-size 64 --num-attention-heads 4 --seq-length 32';

test('a launcher behind options of Python has its own arguments', () => {
  const reading = readText(
    'job.slurm',
    `#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
export LAUNCHER="python -u -m torch.distributed.launch --nproc_per_node 4 --nnodes $SLURM_NNODES"
export CMD="pretrain_gpt.py ${SIZES} --micro-batch-size 2 --global-batch-size 64"
srun bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 | tee log.txt
`,
  );
  assert.deepEqual([reading.world, reading.config.batch, reading.config.accumulation], [16, 2, 2]);
  assert.ok(reading.lines.every(({ effect }) => effect !== 'error'));
});

test('numbers have underscores as in Python, and samples and tokens become steps', () => {
  const head = `deepspeed --num_gpus 2 pretrain_gpt.py --deepspeed ${SIZES} --micro-batch-size 1 --global-batch-size 8`;
  const samples = readText('a.sh', `${head} --train-samples 300_000 --lr-warmup-samples 1_600\n`).config;
  assert.deepEqual([samples.steps, Object(samples.schedule).warmupSteps], [37_500, 200]);
  const tokens = readText('a.sh', `${head} --train-tokens 25_600 --lr-decay-tokens 12_800\n`).config;
  assert.deepEqual([tokens.steps, Object(tokens.schedule).maxSteps], [100, 50]);
});

test('arguments of Megatron-DeepSpeed are read; without its marks they are errors', () => {
  const own =
    '--num-experts 4 --moe-expert-parallel-size 2 --topk 1 --cpu-optimizer --ds-sequence-parallel-size 2';
  const reading = readText('a.sh', `deepspeed --num_gpus 4 pretrain_gpt.py --deepspeed ${SIZES} ${own}\n`);
  const { parallel, offload, model } = reading.config;
  assert.deepEqual([parallel?.ep, parallel?.cp, parallel?.cpKind], [2, 2, 'ulysses']);
  assert.deepEqual([offload?.optimizer, Object(model).router], [true, 'switch']);
  const plain = readText('a.sh', `torchrun --nproc_per_node 4 pretrain_gpt.py ${SIZES} --topk 1\n`);
  assert.equal(effects(plain)['--topk'], 'error');
});

test("DeepSpeed's pipelines may have stages of different sizes", () => {
  const line = (...more: readonly string[]) =>
    readText('a.sh', `torchrun --nproc_per_node 12 pretrain_gpt.py ${SIZES} ${more.join(' ')}\n`);
  const uneven = '--pipeline-model-parallel-size 12';
  assert.equal(effects(line(uneven))['--num-layers'], 'error');
  assert.equal(effects(line(uneven, '--deepspeed'))['--num-layers'], 'used');
});

test("another script with Megatron-LM's arguments may have arguments of its own", () => {
  const reading = readText(
    'a.sh',
    `torchrun --nproc_per_node 2 finetune.py ${SIZES} --my-own-loss 1 --micro-batch-sise 2\n`,
  );
  assert.equal(effects(reading)['--my-own-loss'], 'none');
  assert.equal(effects(reading)['--micro-batch-sise'], 'warning');
  assert.equal(Object(reading.config.model).layers, 40);
});

const BRANCHES = `SIZE=13
STAGE=3
if [[ $SIZE == 7 ]]; then LR=1e-3; LAYERS=4
elif [ "$SIZE" = "13" ]; then
  if [ $STAGE -lt 3 ]; then LR=2e-3; else LR=3e-3; fi
  LAYERS=8
else LR=4e-3; fi
`;

test('a condition that compares known values decides which branch is read', () => {
  const { config, lines } = readText(
    'a.sh',
    `${BRANCHES}if [ "$SIZE" = "7" ]; then
  torchrun --nproc_per_node 8 train.py --learning_rate 1
fi
swift sft --model gpt2 --learning_rate $LR --per_device_train_batch_size $LAYERS
`,
  );
  assert.deepEqual([config.optimizer?.lr, config.batch], [3e-3, 8]);
  const conditions = lines.filter(({ key }) => key === 'if').map(({ value }) => String(value));
  assert.deepEqual(conditions, [
    '[[ 13 == 7 ]] does not hold',
    '[ 13 = 13 ] holds',
    '[ 3 -lt 3 ] does not hold',
    '[ 13 = 7 ] does not hold',
  ]);
});

for (const [condition, lr] of [
  ['! [ 1 = 2 ]', 1e-3],
  ['[ "$1" = x ]', 1e-3],
  ['[[ 1 == 2 && 1 == 1 ]]', 1e-3],
  ['[[ abc == a* ]]', 1e-3],
  ['[ -f x ]', 1e-3],
  ['[ -n "" ]', 2e-3],
  ['[ -z "" ]', 1e-3],
  ['test 2 -ge 3', 2e-3],
  ['[ 4 -ne 4 ]', 2e-3],
  ['[ a != a ]', 2e-3],
] as const) {
  test(`of an if on ${condition}, the ${lr === 1e-3 ? 'first' : 'second'} branch is read`, () => {
    const script = `if ${condition}; then LR=1e-3; else LR=2e-3; fi\nswift sft --model gpt2 --learning_rate $LR\n`;
    assert.equal(readText('a.sh', script).config.optimizer?.lr, lr);
  });
}

test('arithmetic that is not known stays one word, and so do the arguments of the script itself', () => {
  const reading = readText(
    'a.sh',
    'N=$((BATCH / PER_DEVICE / $(wc -l < hosts)))\nswift sft --model gpt2 --gradient_accumulation_steps $N --learning_rate 1e-3 "$@"\n',
  );
  assert.equal(effects(reading)['--gradient_accumulation_steps'], 'warning');
  assert.equal(effects(reading)['$@'], 'none');
  assert.equal(reading.config.optimizer?.lr, 1e-3);
});

test('an eval of several words ends where its output is redirected', () => {
  const script = 'run="swift sft --model gpt2 --learning_rate 1e-3 &> log.txt"\neval $run\n';
  const reading = readText('a.sh', script);
  assert.equal(reading.config.optimizer?.lr, 1e-3);
  assert.ok(reading.lines.every(({ effect }) => effect !== 'error'));
});

test('a file whose name has a variable is not read, and is no error', () => {
  const reading = readText('a.sh', 'accelerate launch --config_file configs/$2.yaml train.py\n');
  assert.match(whyOf(reading, '--config_file'), /depends on a variable/);
  assert.equal(effects(reading)['--config_file'], 'warning');
});

test("an option that a cluster adds to Slurm's is a warning", () => {
  const reading = readText(
    'a.slurm',
    '#SBATCH --quota-type=spot --nodes=2\nsrun torchrun --nproc_per_node 2 train.py\n',
  );
  assert.equal(effects(reading)['--quota-type'], 'warning');
});

test('warm-up of 0 steps is no warm-up', () => {
  const script =
    'FSDP(model)\nget_linear_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=100)\n';
  assert.equal(Object(readText('a.py', script).config.schedule).warmupSteps, 0);
});

test('a workflow of a forge that shares one word with a program has no settings', () => {
  const workflow = 'name: tests\non: push\njobs: {}\nenv: {}\npermissions: read\nconcurrency: 1\n';
  assert.throws(() => readText('a.yml', workflow), { code: 'CONFIG', message: /has no settings of/ });
});

test("DeepSpeed's passes beside a pipeline of Megatron-DeepSpeed are its microbatches", () => {
  const { config, lines } = readText(
    'a.sh',
    `cat <<EOT > ds.json
{ "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8, "zero_optimization": { "stage": 1 } }
EOT
deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed --deepspeed_config ds.json ${SIZES} --pipeline-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 32
`,
  );
  assert.deepEqual([config.batch, config.accumulation, config.parallel?.microbatches], [16, 1, 8]);
  assert.equal(config.parallel?.strategy, 'ZERO_1');
  assert.ok(lines.every(({ effect }) => effect !== 'error'));
});

test('without a number of chosen experts, programs choose as they do by default', () => {
  const model = (more: string) =>
    Object(readText('a.sh', `torchrun --nproc_per_node 2 pretrain_gpt.py ${SIZES} ${more}\n`).config.model);
  const megatron = model('--num-experts 4');
  assert.deepEqual([megatron.kind, megatron.router, megatron.topK], ['moe', 'topk', 2]);
  const fork = model('--num-experts 4 --zero-stage 1');
  assert.deepEqual([fork.kind, fork.router, fork.topK], ['moe', 'switch', undefined]);
  assert.equal(model('--num-experts 1 --zero-stage 1').kind, 'gpt');
});

test('a weight decay that the program does not apply to biases and norms is a warning with the groups', () => {
  for (const line of [
    'torchrun --nproc_per_node 2 train.py --per_device_train_batch_size 1 --weight_decay 0.1',
    'swift sft --model gpt2 --weight_decay 0.1',
    `torchrun --nproc_per_node 2 pretrain_gpt.py ${SIZES} --weight-decay 0.1`,
  ]) {
    const reading = readText('a.sh', `${line}\n`);
    const key = line.includes('--weight-decay') ? '--weight-decay' : '--weight_decay';
    assert.equal(effects(reading)[key], 'warning');
    assert.match(whyOf(reading, key), /optimizer\.groups: \[\{ modules/);
    assert.equal(reading.config.optimizer?.weightDecay, 0.1);
  }
  const off = readText('a.sh', 'swift sft --model gpt2 --weight_decay 0\n');
  assert.equal(effects(off)['--weight_decay'], 'used');
});

test('adapters of embeddings are refused, as a run refuses them', () => {
  const reading = readText(
    'a.sh',
    'swift sft --model gpt2 --tuner_type lora --target_modules embed_tokens q_proj\n',
  );
  assert.equal(effects(reading)['--target_modules'], 'refused');
  assert.match(whyOf(reading, '--target_modules'), /embed_tokens: only linear layers/);
});

test("Megatron Core's layers in a script are lines, with the setting that divides them here", () => {
  const reading = readText(
    'a.py',
    'from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear\n' +
      'fc1 = ColumnParallelLinear(input_size=d, output_size=4 * d)\nfc2 = RowParallelLinear(4 * d, d)\n',
  );
  for (const layer of ['ColumnParallelLinear', 'RowParallelLinear']) {
    const line = reading.lines.find(({ key }) => key.endsWith(layer));
    assert.equal(line?.effect, 'warning');
    assert.match(line?.why ?? '', /write parallel\.tp/);
  }
  assert.ok(reading.lines.every(({ effect }) => effect === 'warning' || effect === 'none'));
});

test('a process that reads the output is no argument', () => {
  const script = 'swift sft --model gpt2 --seed 42 > >(tee out/$(date +%s).log) 2> >(tee err.log >&2)\n';
  const { lines } = readText('a.sh', script);
  assert.deepEqual(
    lines.filter(({ key }) => key === '--seed').map(({ value }) => value),
    [42],
  );
});

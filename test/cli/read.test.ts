import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readConfig } from '../../src/session/notebook/read-config';
import { quietPlan as plan, whatIf } from '../../src/session/plans/plan';
import { testData } from '../support/paths';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-read-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const cwd = testData('dialects');

test('read --json prints one document with world, machines, config and lines', async () => {
  const { status, stdout, stderr } = await shardlab(['read', '--json', 'accelerate_4x8.yaml'], { cwd });
  assert.equal(status, 0, stderr);
  const answer = JSON.parse(stdout);
  assert.deepEqual(Object.keys(answer), ['world', 'machines', 'config', 'lines']);
  assert.deepEqual([answer.world, answer.machines], [32, 4]);
  assert.deepEqual(Object.keys(answer.lines[0]), ['file', 'line', 'key', 'value', 'effect', 'why']);
});

test('read prints a table with file and line, and a document per launch of a file', async () => {
  const table = await shardlab(['read', 'accelerate_4x8.yaml'], { cwd });
  assert.match(
    table.stdout,
    /^accelerate_4x8\.yaml:22 +main_process_ip +10\.233\.xx\.xx +warning +placeholder address, line 22/m,
  );
  assert.match(table.stdout, /32 ranks on 4 machines/);
  const launches = JSON.parse((await shardlab(['read', '--json', 'launches.txt'], { cwd })).stdout);
  assert.equal(launches.length, 3);
});

test('a command after -- is read as it is typed', async () => {
  const command = [
    'torchrun',
    '--nproc_per_node=8',
    'train.py',
    '--task',
    's2v-14B',
    '--dit_fsdp',
    '--ulysses_size',
    '8',
  ];
  const { status, stdout } = await shardlab(['read', '--json', '--', ...command], { cwd });
  assert.equal(status, 0);
  const { world, config } = JSON.parse(stdout);
  assert.equal(world, 8);
  assert.equal(config.model, 'wan2.2-s2v-14b');
});

test('a line that is an error ends read, run and plan with status 2, and names file, line and key', async () => {
  writeFileSync(join(folder, 'wrong.yaml'), 'distributed_type: FSDP\nnum_proceses: 4\n');
  const read = await shardlab(['read', 'wrong.yaml'], { cwd: folder });
  assert.equal(read.status, 2);
  assert.match(read.stdout, /wrong\.yaml:2 +num_proceses +4 +error .*num_processes/);
  for (const command of ['run', 'plan']) {
    const { status, stderr } = await shardlab([command, 'wrong.yaml'], { cwd: folder });
    assert.equal(status, 2, command);
    assert.match(stderr, /wrong\.yaml:2: num_proceses: .*did you mean "num_processes"/);
  }
});

test('a file that nobody knows is refused', async () => {
  writeFileSync(join(folder, 'notes.json'), '{"hello": 1}');
  const { status, stderr } = await shardlab(['read', 'notes.json'], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /notes\.json has no settings of this library, Accelerate, DeepSpeed/);
});

test("plan takes another program's file: its lines are on stderr, and its ranks are GPUs", async () => {
  const args = ['plan', '--json', 'accelerate_4x8.yaml', '--set', 'model=llama3-8b'];
  const { status, stdout, stderr } = await shardlab(args, { cwd });
  assert.equal(status, 0, stderr);
  const { layout } = JSON.parse(stdout);
  assert.equal(layout.gpus, 32);
  assert.match(
    stderr,
    /accelerate_4x8\.yaml:11 +deepspeed_config\.zero_stage +2 +used +parallel\.strategy: "ZERO_2"/,
  );
});

test('plan takes a command after --, and the launch of a line', async () => {
  const command = [
    'swift',
    'sft',
    '--model_type',
    'qwen-7b',
    '--parallel_method',
    'megatron',
    '--tensor_parallel_size',
    '4',
    '--pipeline_parallel_size',
    '2',
  ];
  const typed = await shardlab(['plan', '--json', '--', ...command], { cwd });
  assert.equal(typed.status, 0, typed.stderr);
  const { layout } = JSON.parse(typed.stdout);
  assert.deepEqual([layout.gpus, layout.parallel.tp, layout.parallel.pp], [8, 4, 2]);
  assert.match(typed.stderr, /swift has no such argument/);
  const line = await shardlab(['plan', '--json', 'launches.txt:3'], { cwd });
  assert.equal(line.status, 0, line.stderr);
  const several = await shardlab(['plan', 'launches.txt'], { cwd });
  assert.equal(several.status, 2);
  assert.match(several.stderr, /name one of them: launches\.txt:1/);
});

test('--set chooses another model than the lines of another program, also in place of one that only a plan knows', async () => {
  for (const name of ['gpt2', 'Qwen/Qwen3-8B']) {
    const command = ['--', 'swift', 'sft', '--model', name, '--tuner_type', 'full'];
    const { status, stdout, stderr } = await shardlab(['plan', '--set', 'model=gpt2-xl', ...command], {
      cwd,
    });
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^gpt2-xl on /);
  }
});

test('sl.plan of a reading gives the plan of the command, with the lines that only plans know', async () => {
  const text = [
    'distributed_type: FSDP\nnum_processes: 16\nnum_machines: 2\nmixed_precision: fp8',
    'fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true',
    'dynamo_config:\n  dynamo_backend: inductor\n',
  ].join('\n');
  writeFileSync(join(folder, 'compiled.yaml'), text);
  const args = ['plan', '--json', 'compiled.yaml', '--hardware', 'H100-80G', '--set', 'model=llama3-8b'];
  const { status, stdout, stderr } = await shardlab(args, { cwd: folder });
  assert.equal(status, 0, stderr);
  const answer = JSON.parse(stdout);
  const reading = readConfig('compiled.yaml', { cwd: folder });
  const input = { ...reading, config: { ...reading.config, model: 'llama3-8b' as const } };
  const { layout, seconds } = plan(input, 'H100-80G');
  assert.deepEqual([layout.compile, layout.precision, layout.gpus], [true, 'fp8', 16]);
  assert.deepEqual([answer.layout.compile, answer.layout.precision, answer.layout.gpus], [true, 'fp8', 16]);
  assert.equal(Number((seconds.value * 1e3).toPrecision(6)), answer.iteration_ms);
  const alone = plan(input.config, { on: 'H100-80G', gpus: 16 });
  assert.equal(alone.layout.compile, false, 'the config alone does not know it');
  assert.equal(
    plan(input, { on: 'H100-80G', gpus: 32 }).layout.gpus,
    32,
    'the place replaces what lines say',
  );
  assert.match(JSON.stringify(whatIf(input, { compile: [true, false] }, 'H100-80G')), /16 x H100-80G/);
});

test('sl.plan refuses a reading with errors, and one whose rows depend on ranks that no line has', () => {
  const wrong = readConfig('swift sft --model llama3-8b --lora_rnk 8');
  assert.throws(() => plan(wrong, 'H100-80G'), /--lora_rnk: swift has no such key; did you mean "lora_rank"/);
  const rows = readConfig(
    'python pretrain_gpt.py --global-batch-size 64 --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 128',
  );
  assert.throws(() => plan(rows, { on: 'H100-80G', gpus: 8 }), /64 rows of all ranks.*\{ world: 8 \}/);
});

test('sl.readConfig returns the same, and is shown as its table', () => {
  const reading = readConfig('deepspeed_ulysses.json', { cwd, world: 8 });
  assert.equal(reading.config.batch, 32);
  assert.match(String(reading), /ulysses\.size +8 +warning/);
});

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'hostile-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Files of other programs, with the end of the answer that `shardlab read` gives on stderr. */
const FILES: Readonly<Record<string, readonly [string, RegExp]>> = {
  'numbers.py': [
    `x = [${'1,'.repeat(150_000)}]\nfully_shard(model, mesh=mesh)\n`,
    /^$/, // it is read
  ],
  'brackets.py': [
    `x = ${'('.repeat(100_000)}1${')'.repeat(100_000)}\n`,
    /^shardlab: brackets\.py:1: more than 200 brackets within each other, .*\n$/,
  ],
  'calls.py': [`${'f('.repeat(20_000)}${')'.repeat(20_000)}\n`, /^shardlab: .*more than 200 brackets.*\n$/],
  'mixed.py': [`\nx = ${'{1:['.repeat(30_000)}`, /^shardlab: mixed\.py:2: more than 200 brackets.*\n$/],
  'signs.py': [`x = ${'-'.repeat(100_000)}1\n`, /^shardlab: signs\.py makes no call that is read: .*\n$/],
  'nested.toml': [`a = ${'['.repeat(20_000)}${']'.repeat(20_000)}\n`, /^shardlab: .*nested too deep; .*\n$/],
  'nested.json': [`${'['.repeat(200_000)}${']'.repeat(200_000)}`, /^shardlab: .*more than 64 levels; .*\n$/],
  'quotes.sh': [`torchrun train.py "${'a'.repeat(1_000_000)}`, /^$/],
  'arithmetic.sh': [`torchrun --nproc_per_node $((${'('.repeat(100_000)}1)) train.py\n`, /^$/],
  'slurm.sh': [
    `#SBATCH ${'-a '.repeat(300_000)}\n`,
    /^shardlab: slurm\.sh:1: a command of 300000 words; .*\n$/,
  ],
  'doubled.sh': [
    `A=abcdefgh\n${'A=$A$A\n'.repeat(40)}torchrun train.py $A\n`,
    /^shardlab: doubled\.sh:\d+: variables with values of \d+ characters; at most 1048576 are read\n$/,
  ],
  'lists.sh': [
    `A=(a b)\n${`A+=("\${A[@]}")\n`.repeat(40)}torchrun train.py\n`,
    /^shardlab: lists\.sh:\d+: variables with values of \d+ characters; .*\n$/,
  ],
  'documents.sh': ['cat <<E\n'.repeat(20_000), /^shardlab: .*501 here-documents; at most 500 are read\n$/],
  'launches.sh': ['torchrun train.py\n'.repeat(20_000), /^shardlab: .*201 launches; at most 200 are read\n$/],
  'keys.yaml': [
    Array.from({ length: 80_000 }, (_, i) => `k${i}: 1\n`).join(''),
    /^shardlab: keys\.yaml:10001: more than 10000 keys; .*\n$/,
  ],
  'keys.toml': [
    `[training]\nsteps = 1\n${Array.from({ length: 20_000 }, (_, i) => `k${i} = 1\n`).join('')}`,
    /^shardlab: keys\.toml: a file of 20001 settings; at most 2000 are read\n$/,
  ],
  'arguments.py': [
    `TrainingArguments(${Array.from({ length: 20_000 }, (_, i) => `k${i}=1,`).join('')})\n`,
    /^shardlab: arguments\.py: a script of 20000 settings; at most 2000 are read\n$/,
  ],
  'lists.py': [
    `a0 = [1]\n${[1, 2, 3, 4, 5, 6, 7].map((i) => `a${i} = [${`a${i - 1},`.repeat(1000)}]\n`).join('')}TrainingArguments(fsdp=a7)\n`,
    /^$/,
  ],
  'words.sh': [
    `torchrun train.py ${'--a b '.repeat(100_000)}\n`,
    /^shardlab: words\.sh:1: a command of 200001 words; at most 2000 are read\n$/,
  ],
};

for (const [name, [text, answer]] of Object.entries(FILES)) {
  test(`shardlab read answers ${name} by one line`, async () => {
    writeFileSync(join(folder, name), text);
    const { status, stderr } = await shardlab(['read', name], { cwd: folder });
    assert.match(stderr, answer);
    assert.equal(status, stderr === '' ? 0 : 2);
  });
}

test('a list of Python with a computed part is not known, for every kind of setting', async () => {
  const text = `TrainingArguments(fsdp=["full_shard", extra], optim=[x, [y]], bf16=[[x]], max_steps=3)
LoraConfig(r=[x], target_modules=["q_proj", [x]])
mesh = init_device_mesh("cpu", (x, 2), mesh_dim_names=("dp", "tp"))\n`;
  writeFileSync(join(folder, 'computed.py'), text);
  const { stdout, stderr } = await shardlab(['read', 'computed.py', '--json'], { cwd: folder });
  assert.equal(stderr, '');
  const { config, lines } = JSON.parse(stdout) as {
    config: { steps: number; parallel?: { tp?: number; strategy?: string } };
    lines: { key: string; why: string }[];
  };
  assert.equal(config.steps, 3);
  assert.equal(config.parallel?.tp, 2, 'the axis whose size is known');
  for (const key of ['fsdp', 'optim', 'bf16', 'r', 'target_modules']) {
    const line = lines.find((one) => one.key.endsWith(`.${key}`));
    assert.match(line?.why ?? '', /not known here: line \d computes it/, key);
  }
});

test('signs before a number of Python are counted', async () => {
  const text = 'TrainingArguments(learning_rate=- -0.5, max_steps=-+-3)\n';
  writeFileSync(join(folder, 'signs.py'), text);
  const { stdout } = await shardlab(['read', 'signs.py', '--json'], { cwd: folder });
  const { config } = JSON.parse(stdout) as { config: { steps: number; optimizer: { lr: number } } };
  assert.deepEqual([config.optimizer.lr, config.steps], [0.5, 3]);
});

test('an output folder that cannot be made is one line, for every command that writes', {
  skip: process.platform !== 'linux' && '/proc is a folder of Linux',
}, async () => {
  const data = join(folder, 'chats.jsonl');
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
  ];
  writeFileSync(data, `${JSON.stringify({ messages })}\n`);
  for (const out of ['/proc/x', '/dev/null/x', '/dev/full', join(data, 'x'), '/proc']) {
    const args = ['sft', '--model', 'tiny', '--dataset', data, '--output_dir', out];
    const { status, stderr } = await shardlab(args, { cwd: folder });
    assert.equal(status, 1);
    assert.match(
      stderr,
      /^shardlab: sft: --output_dir \S+ cannot be written: .*; name a folder in which you may write\n$/,
    );
  }
});

test('an argument of any length is repeated in short', async () => {
  const long = 'z'.repeat(900);
  for (const words of [
    ['plan', long],
    ['export', 'tiny', '--to', long],
    ['plan', 'tiny', `--${long}`],
    ['run', 'tiny', '--ranks', long],
    [long],
  ]) {
    const { status, stderr } = await shardlab(words);
    assert.notEqual(status, 0);
    assert.ok(
      stderr.length > 20 && stderr.length < 900,
      `${words[0]?.slice(0, 9)}: ${stderr.length} characters: ${stderr.slice(0, 300)}`,
    );
  }
});

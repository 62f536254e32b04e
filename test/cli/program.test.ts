import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { COMMANDS } from '../../src/cli/commands';
import { repositoryRoot } from '../support/paths';
import { shardlab } from './run-command';

const BENCHMARKS = ['gpt', 'collectives', 'kernel', 'settings', 'plan', 'predictions'];

const NAMES = COMMANDS.flatMap(({ name }) =>
  name === 'bench' ? BENCHMARKS.map((benchmark) => `bench ${benchmark}`) : [name],
);

test('every subcommand has a help, which exits with status 0', async () => {
  for (const name of NAMES) {
    const { status, stdout } = await shardlab([...name.split(' '), '--help']);
    assert.equal(status, 0, name);
    assert.match(stdout, new RegExp(`^Usage: shardlab ${name}`));
    assert.match(stdout, /--json/);
    assert.doesNotMatch(
      stdout,
      /^ +-\S+( <\S+>)? +(\(default: .*)?$/m,
      `${name}: an option without a description`,
    );
  }
});

test('the list of commands gives the arguments that each command takes', async () => {
  const { stdout } = await shardlab(['--help']);
  for (const { name, args } of COMMANDS) {
    const usage = args === undefined ? '' : ` ${args.replaceAll(/[[\].]/g, '\\$&')}`;
    assert.match(stdout, new RegExp(`^  ${name} \\[options\\]${usage}  `, 'm'));
    const help = (await shardlab([name, '--help'])).stdout.replaceAll(/\s+/g, ' ');
    assert.ok(help.startsWith(`Usage: shardlab ${name} [options]${args ? ` ${args}` : ''} `), help);
  }
});

test('the list of commands loads none of them', () => {
  const main = join(repositoryRoot(), 'build', 'src', 'cli', 'main.js');
  const code = `process.argv[2] = '--help';
    require(${JSON.stringify(main)});
    process.on('exit', () => console.error(Object.keys(require.cache).join()));`;
  const { stderr } = spawnSync(process.execPath, ['-e', code], { encoding: 'utf8' });
  assert.match(stderr, /program\.js/);
  assert.doesNotMatch(stderr, /\/cli\/\w+\/command|\/zod\//);
});

test('the error of an unknown subcommand names the nearest subcommand', async () => {
  const { status, stdout, stderr } = await shardlab(['doctr']);
  assert.equal(status, 2);
  assert.equal(stdout, '');
  assert.match(stderr, /unknown command 'doctr'[\s\S]*doctor/);
});

test('an unknown option is bad usage', async () => {
  const { status, stderr } = await shardlab(['doctor', '--depth', '3']);
  assert.equal(status, 2);
  assert.match(stderr, /--depth/);
});

test('with --json a failure is one document on stdout and one line on stderr', async () => {
  const { status, stdout, stderr } = await shardlab(['trace', '/no/such/file.jsonl', '--json']);
  assert.equal(status, 2);
  const { error } = JSON.parse(stdout);
  assert.equal(error.code, 'CONFIG');
  assert.match(error.message, /\/no\/such\/file\.jsonl/);
  assert.match(stderr, /^shardlab: .*\/no\/such\/file\.jsonl/);
});

test('with SHARDLAB_LANG=zh the first sentence of an error comes in Chinese, before the English text', async () => {
  const env = { ...process.env, SHARDLAB_LANG: 'zh' };
  const trace = await shardlab(['trace', '/no/such/file.jsonl'], { env });
  const [chinese, english] = trace.stderr.split('\n');
  assert.match(String(chinese), /^shardlab: .*\p{Script=Han}.*\/no\/such\/file\.jsonl/u);
  assert.equal(`${english}\n`, (await shardlab(['trace', '/no/such/file.jsonl'])).stderr);
  const plan = await shardlab(['plan', 'llama3-8b', '--gpus', '7x'], { env });
  assert.match(
    plan.stderr,
    /^错误：选项 '--gpus <n>' 的值 '7x' 无效。必须是不小于 1 的整数。\nerror: option '--gpus/,
  );
});

test('what programs read stays English with SHARDLAB_LANG=zh', async () => {
  const argv = ['trace', '/no/such/file.jsonl', '--json'];
  const { stdout } = await shardlab(argv, { env: { ...process.env, SHARDLAB_LANG: 'zh' } });
  assert.equal(stdout, (await shardlab(argv)).stdout);
});

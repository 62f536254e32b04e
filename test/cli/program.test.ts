import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardlab } from './run-command';

const COMMANDS = [
  'doctor',
  'engine',
  'install',
  'uninstall',
  'run',
  'bench gpt',
  'bench collectives',
  'bench kernel',
  'bench settings',
  'bench plan',
  'bench predictions',
  'plan',
  'recommend',
  'claims',
  'trace',
];

test('every subcommand has a help, which exits with status 0', async () => {
  for (const name of COMMANDS) {
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

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { COMMANDS } from '../../src/cli/commands';
import { shardlab } from './run-command';

/** Returns what bash proposes after these words; the last one is incomplete. */
function proposals(script: string, words: readonly string[]): readonly string[] {
  const program = `${script}
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
    COMP_CWORD=${words.length - 1}
    _shardlab
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-euc', program], { encoding: 'utf8' }).trim().split('\n');
}

test('bash completes commands, options, subcommands and values', async () => {
  const { status, stdout: script } = await shardlab(['completion', 'bash']);
  assert.equal(status, 0);
  const all = proposals(script, ['shardlab', '']);
  assert.deepEqual(
    COMMANDS.map(({ name }) => name).filter((name) => !all.includes(name)),
    [],
  );
  assert.deepEqual(proposals(script, ['shardlab', 'unin']), ['uninstall']);
  assert.deepEqual(proposals(script, ['shardlab', 'lab', '--exec']), ['--execute']);
  assert.deepEqual(proposals(script, ['shardlab', 'lab', 'folder', '--p']), ['--port']);
  assert.ok(proposals(script, ['shardlab', 'bench', '']).includes('gpt'));
  assert.deepEqual(proposals(script, ['shardlab', 'bench', 'gpt', '--pee']), ['--peer']);
  assert.deepEqual(proposals(script, ['shardlab', 'completion', 'z']), ['zsh']);
});

test('the scripts for zsh and fish name every command and its options', async () => {
  for (const shell of ['zsh', 'fish']) {
    const { stdout } = await shardlab(['completion', shell]);
    for (const { name } of COMMANDS) assert.match(stdout, new RegExp(`\\b${name}\\b`), `${shell}: ${name}`);
    assert.match(stdout, shell === 'zsh' ? /--sys-prefix/ : /-l sys-prefix/);
  }
});

/** Whether a shell is installed. */
function hasShell(shell: string): boolean {
  return spawnSync(shell, ['-c', 'exit 0']).status === 0;
}

test('fish completes commands and options', async (context) => {
  if (!hasShell('fish')) return context.skip('fish is not installed');
  const { stdout: script } = await shardlab(['completion', 'fish']);
  const proposed = (line: string): readonly string[] =>
    execFileSync('fish', ['--no-config', '-c', `${script}\ncomplete -C '${line}'`], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((each) => each.split('\t')[0] ?? '');
  assert.deepEqual(proposed('shardlab unin'), ['uninstall']);
  assert.deepEqual(proposed('shardlab lab --exec'), ['--execute']);
  assert.deepEqual(proposed('shardlab completion z'), ['zsh']);
});

test('zsh completes commands and options', async (context) => {
  if (!hasShell('zsh')) return context.skip('zsh is not installed');
  const { stdout: script } = await shardlab(['completion', 'zsh']);
  const proposed = (...words: string[]): readonly string[] => {
    // compadd works only in zsh's line editor; this one prints what it gets.
    const program = `${script.replace(/\ncompdef .*$/m, '')}
      _files() { : }
      compadd() { shift; print -l -- "$@" }
      words=(${words.map((word) => `'${word}'`).join(' ')}); CURRENT=\${#words}
      _shardlab`;
    const all = execFileSync('zsh', ['-f', '-c', program], { encoding: 'utf8' }).trim().split('\n');
    return all.filter((each) => each.startsWith(words.at(-1) ?? ''));
  };
  assert.deepEqual(proposed('shardlab', 'unin'), ['uninstall']);
  assert.deepEqual(proposed('shardlab', 'lab', '--exec'), ['--execute']);
  assert.deepEqual(proposed('shardlab', 'completion', 'z'), ['zsh']);
});

test('another shell is bad usage', async () => {
  assert.equal((await shardlab(['completion', 'cmd'])).status, 2);
});

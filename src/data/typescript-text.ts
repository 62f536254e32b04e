import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ShardlabError } from '../core/errors';

/** The declaration files of the installed TypeScript package, one after another in order of name: about 3.7 MB of text. */
export function typescriptText(): string {
  const folder = dirname(require.resolve('typescript'));
  const names = readdirSync(folder)
    .filter((name) => /^lib\..*\.d\.ts$/.test(name))
    .sort();
  if (names.length === 0) {
    throw new ShardlabError('IO', `no lib.*.d.ts in ${folder}; install the typescript package again`);
  }
  return names.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n');
}

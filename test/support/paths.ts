import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The repository's root, found from the compiled tests. */
export function repositoryRoot(): string {
  let folder = __dirname;
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}

/** A file of test/data. */
export function testData(...parts: readonly string[]): string {
  return join(repositoryRoot(), 'test', 'data', ...parts);
}

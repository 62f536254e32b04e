import { lstatSync, mkdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from './places.mjs';

const LINKS = {
  'node_modules/shardlab': '..',
  'node_modules/.bin/shardlab': '../../build/src/cli/main.js',
};

/** Makes `import 'shardlab'` and `npx shardlab` work in the clone itself. */
export function linkSelf(say) {
  let made = 0;
  for (const [name, target] of Object.entries(LINKS)) {
    const path = join(root, name);
    if (linkTarget(path) === target) continue;
    try {
      mkdirSync(dirname(path), { recursive: true });
      rmSync(path, { force: true, recursive: true });
      symlinkSync(target, path);
      made++;
    } catch (error) {
      if (error.code !== 'EACCES' && error.code !== 'EROFS') throw error;
      return say('skipped: the clone is not writable (the kernel finds shardlab without it)');
    }
  }
  say(made === 0 ? 'up to date' : 'linked');
}

function linkTarget(path) {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined;
  } catch {
    return undefined;
  }
}

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isWritable, root } from './places.mjs';
import { capture, lastLines } from './run.mjs';
import { StepError } from './step.mjs';

const QUIET = ['--no-audit', '--no-fund', '--loglevel=error'];

/** Installs the npm packages of a folder's package-lock.json, unless they are already installed. */
export async function ensurePackages(say, env = process.env, folder = root) {
  const modules = join(folder, 'node_modules');
  const stamp = join(modules, '.shardlab-lock');
  const lockText = readFileSync(join(folder, 'package-lock.json'), 'utf8');
  const hash = createHash('sha256').update(lockText).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return say('up to date');
  if (matchesLock(modules, JSON.parse(lockText))) {
    if (isWritable(modules)) writeFileSync(stamp, hash);
    return say('up to date');
  }
  if (!isWritable(folder)) {
    throw new StepError(
      `The npm packages are missing or old, and ${folder} is not writable.`,
      'copy the clone to a folder of your own and run the command there',
    );
  }
  say(await install(env, folder));
  writeFileSync(stamp, hash);
}

/** Runs `npm ci`. If package-lock.json is incomplete, runs `npm install --no-save`, which does not change the lock. */
async function install(env, folder) {
  const [command, ...npm] = npmCommand();
  const strict = await capture(command, [...npm, 'ci', ...QUIET], { cwd: folder, env });
  if (strict.code === 0) return 'installed';
  const unfit = /can only install packages when your package\.json and package-lock/.test(strict.stderr);
  if (unfit) {
    const lenient = await capture(command, [...npm, 'install', '--no-save', ...QUIET], { cwd: folder, env });
    if (lenient.code === 0)
      return 'installed, though package-lock.json is not complete (npm install --no-save)';
  }
  throw new StepError(
    `npm did not install the packages:\n${strict.missing?.message ?? lastLines(strict.stderr, 12)}`,
    'is the npm registry reachable? test it with `npm ping`; behind a proxy: npm config set proxy URL',
    'for a private certificate authority: npm config set cafile FILE; for a private registry: npm config set registry URL',
  );
}

/** Whether npm's list in node_modules contains every required package of the lock, in the lock's version. */
function matchesLock(modules, lock) {
  const noted = join(modules, '.package-lock.json');
  if (!existsSync(noted)) return false;
  const installed = JSON.parse(readFileSync(noted, 'utf8')).packages;
  return Object.entries(lock.packages).every(
    ([path, entry]) =>
      path === '' || entry.optional || entry.devOptional || installed[path]?.version === entry.version,
  );
}

/** Returns the command that runs npm: that of the npm that runs this script, if one does. */
export function npmCommand() {
  const script = process.env.npm_execpath;
  return script?.endsWith('.js') ? [process.execPath, script] : ['npm'];
}

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../src/core';
import { generatedFolder } from '../../src/core/code-cache/generated-folder';

/**
 * [Note: compiler snapshot] Loading TypeScript and reading its libraries takes about a second of computing. Node can start from
 * a saved heap in which this work is done; this takes a quarter of the time. The snapshot's file belongs to one Node binary,
 * one version of TypeScript and one build of the compiler; the file's name contains their hash. A process that cannot use the
 * snapshot ends at once, and the front starts a process without a snapshot. `npm start` builds the snapshot; if it is missing,
 * a kernel builds it in the background.
 */
export interface SnapshotPlace {
  /** Path of the snapshot's file, which may not exist yet. */
  readonly path: string;
  readonly installation: string;
}

/**
 * Options of the compiler's process and of its snapshot, whose options must be equal. V8's other threads would take 60 MB for what
 * they compile, and a large space for new objects 20 MB; checks are as fast without them. `gc` is for `collectWhenIdle`.
 */
export const COMPILER_FLAGS: readonly string[] = [
  '--single-threaded',
  '--max-semi-space-size=4',
  '--expose-gc',
];

const PREFIX = 'compiler-';
const WORK = /^work-(\d+)$/;

/** Returns the path of the snapshot for this Node binary and this build. */
export function snapshotPlace(installation: string): SnapshotPlace {
  const hash = createHash('sha256').update(
    `${process.version} ${process.arch} ${process.execPath} ${COMPILER_FLAGS.join(' ')}`,
  );
  const inputs = [
    ...readdirSync(__dirname).map((name) => join(__dirname, name)),
    require.resolve('typescript/package.json'),
    require.resolve('@types/node/package.json'),
  ];
  for (const file of inputs) {
    if (!file.endsWith('.js') && !file.endsWith('.json')) continue;
    const { mtimeMs, size } = statSync(file);
    hash.update(`${file} ${size} ${mtimeMs}\n`);
  }
  const folder = join(generatedFolder(join(__dirname, '..', '..')), 'kernel', 'snapshot');
  return { installation, path: join(folder, `${PREFIX}${hash.digest('hex').slice(0, 16)}.blob`) };
}

export function hasSnapshot({ path }: SnapshotPlace): boolean {
  return existsSync(path);
}

/**
 * Builds the snapshot and removes the snapshots of other builds. Resolves with false if the snapshot cannot be built (a
 * read-only installation, a full disk); kernels then start without a snapshot. If this process ends, the building process ends
 * too.
 */
export async function buildCompilerSnapshot(place: SnapshotPlace, signal?: AbortSignal): Promise<boolean> {
  const folder = join(place.path, '..');
  const work = join(folder, `work-${process.pid}`);
  try {
    removeAbandoned(folder);
    makeFolder(work);
    const entry = join(work, 'entry.js');
    const blob = join(work, 'blob');
    writeFileSync(entry, entrySource(place.installation));
    const child = spawn(
      process.execPath,
      [...COMPILER_FLAGS, '--snapshot-blob', blob, '--build-snapshot', entry],
      {
        stdio: 'ignore',
        killSignal: 'SIGKILL',
        ...(signal && { signal }),
      },
    );
    const [code] = await once(child, 'exit');
    if (code !== 0) return false;
    for (const name of readdirSync(folder))
      if (name.startsWith(PREFIX)) rmSync(join(folder, name), { force: true });
    renameSync(blob, place.path);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Removes the working folders of kernels that were killed while they built. */
function removeAbandoned(folder: string): void {
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    const owner = WORK.exec(name)?.[1];
    if (owner !== undefined && !isAlive(Number(owner)))
      rmSync(join(folder, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

// While a snapshot is built, `require` knows only Node's own modules, so the script has a loader for other modules.
function entrySource(installation: string): string {
  const typescript = require.resolve('typescript');
  return `
const { readFileSync } = require('node:fs');
const { dirname, resolve } = require('node:path');
const { compileFunction } = require('node:vm');
const loaded = new Map();
const parent = process.ppid;
function load(filename) {
  if (process.ppid !== parent) process.exit(1);
  if (!loaded.has(filename)) {
    const module = { exports: {} };
    loaded.set(filename, module);
    const names = ['exports', 'require', 'module', '__filename', '__dirname'];
    const run = compileFunction(readFileSync(filename, 'utf8'), names, { filename });
    const folder = dirname(filename);
    const requireFrom = (name) =>
      name === 'typescript' ? load(${JSON.stringify(typescript)})
      : name.startsWith('.') ? load(resolve(folder, name) + '.js')
      : require(name);
    run(module.exports, requireFrom, module, filename, folder);
  }
  return loaded.get(filename).exports;
}
load(${JSON.stringify(join(__dirname, 'snapshot-main.js'))}).buildSnapshot(${JSON.stringify(installation)});
if (process.ppid !== parent) process.exit(1);
`;
}

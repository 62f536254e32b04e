import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { buildKernels } from '../build-kernels.mjs';
import { packNotebooks } from './pack-notebooks.mjs';
import { filesBelow, isWritable, root } from './places.mjs';
import { mustRun } from './run.mjs';
import { slimBuild } from './slim.mjs';
import { StepError } from './step.mjs';
import { vendorPackages } from './vendor.mjs';

const SOURCES = ['src', 'kernel', 'test', 'claims'];
/** The build does not copy Python's modules: Python reads them in the clone, and writes its compiled files beside them. */
const PYTHON = join(root, 'src', 'python', '/');
const OTHER_INPUTS = [
  'tsconfig.json',
  'package-lock.json',
  'scripts/build-kernels.mjs',
  'scripts/lib/build.mjs',
  'scripts/lib/lazy-doors.mjs',
  'scripts/lib/plain-types.mjs',
  'scripts/lib/slim.mjs',
  'scripts/lib/used-declarations.mjs',
  'scripts/lib/vendor.mjs',
  'scripts/lib/vendored/load-addon.cjs',
  'scripts/lib/vendored/one-copy.cjs',
];
const build = join(root, 'build');
const stamp = join(build, '.inputs');
const toolStamp = join(build, '.tools');

/** Compiles TypeScript and WebAssembly kernels that changed, and copies the other files of the source folders. */
export async function ensureBuild(say) {
  const files = SOURCES.flatMap((folder) => filesBelow(join(root, folder))).filter(
    (file) => !file.startsWith(PYTHON) && !file.includes('__pycache__'),
  );
  if (isWritable(root)) packNotebooks(build);
  const hash = hashOf([...files, ...OTHER_INPUTS.map((name) => join(root, name))]);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return say('up to date');
  if (!isWritable(root)) {
    throw new StepError(
      `The build is missing or old, and ${root} is not writable.`,
      'copy the clone to a folder of your own and run the command there',
    );
  }
  // What these scripts make of tsc's files cannot be made twice, so tsc writes all files again if a script has changed.
  const tools = hashOf(OTHER_INPUTS.map((name) => join(root, name)));
  const isSame = existsSync(stamp) && existsSync(toolStamp) && readFileSync(toolStamp, 'utf8') === tools;
  if (!isSame) rmSync(join(build, '.tsbuildinfo'), { force: true });
  rmSync(stamp, { force: true });
  if (!isSame) await vendorPackages(build);
  await compile();
  copyAssets(files);
  removeOrphans();
  slimBuild(build, ['src', 'kernel']);
  await buildKernels(root, build);
  const command = join(build, 'src', 'cli', 'main.js');
  if (existsSync(command)) chmodSync(command, 0o755);
  writeFileSync(toolStamp, tools);
  writeFileSync(stamp, hash);
  say('built');
}

async function compile() {
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  await mustRun(
    process.execPath,
    [compiler, '-p', root, '--pretty', 'false'],
    { cwd: root },
    'The TypeScript sources do not compile.',
    'correct the lines named above and run the command again',
  );
}

function copyAssets(files) {
  for (const file of files) {
    if (/\.(ts|md)$/.test(file) || file.includes('/assembly/')) continue;
    const target = join(build, relative(root, file));
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(file, target);
  }
}

/** Deletes compiled files whose source no longer exists, so that a removed test no longer runs. */
function removeOrphans() {
  for (const file of [...SOURCES, 'types'].flatMap((folder) => filesBelow(join(build, folder)))) {
    const source = join(root, relative(build, file).replace(/^types\//, ''));
    const typescript = source.replace(/(\.d\.ts|\.js\.map|\.js)$/, '.ts');
    const isKernel = file.endsWith('.wasm');
    if (!isKernel && !existsSync(source) && !existsSync(typescript)) rmSync(file);
  }
}

function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${relative(root, file)}\0`).update(readFileSync(file));
  return hash.digest('hex');
}

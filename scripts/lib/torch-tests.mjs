import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join, relative } from 'node:path';
import { fromBuild } from './from-build.mjs';
import { filesBelow, root } from './places.mjs';
import { capture, lastLines, mustRun, passThrough } from './run.mjs';
import { isNamed, runTests, smokeFiles, testFiles } from './run-tests.mjs';
import { StepError, step } from './step.mjs';

const PACKAGES = join(root, 'src', 'python');
/** pytest and mypy are in a folder of their own, so that the Python with PyTorch is not changed. */
const TOOLS = join(root, 'build', 'torch-tools');
/** The folder of the libraries (such as accelerate) with which a test runs the documents' code. */
const ORIGINALS = join(root, 'build', 'originals');

/**
 * Runs the tests of the Python package and NAME.torch.test.ts, and checks the package's types (mypy --strict). Uses the Python
 * that SHARDLAB_TORCH_PYTHON names, or else the Python that `shardlab engine torch` makes. `fast` leaves out pytest's tests with
 * the mark `slow`, and NAME.torch.test.ts without the line of a smoke. If `only` has texts, only test files whose path contains one
 * of them run.
 */
export async function runTorchTests(env, { fast, only }) {
  const inPython = filesBelow(join(root, 'test', 'torch'))
    .map((file) => relative(root, file))
    .filter((file) => /(^|\/)test_[^/]*\.py$/.test(file) && isNamed(file, only));
  const all = testFiles({ torch: true, only });
  const inTypeScript = fast ? smokeFiles(all) : all;
  if (inPython.length + inTypeScript.length === 0) {
    throw new StepError('No test file matches.', 'name part of a path of test_*.py or *.torch.test.ts');
  }
  const python = await step('PyTorch', (say) => ensureTorch(env, say, fast ? [] : ['--deepspeed']));
  const torchEnv = { ...env, SHARDLAB_TORCH_PYTHON: python };
  const toolsEnv = {
    ...torchEnv,
    PYTHONPATH: [PACKAGES, TOOLS].join(delimiter),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  await step('pytest and mypy', (say) => ensurePackages(python, env, say, 'requirements.txt', TOOLS));
  if (inTypeScript.some((file) => /fragments-real/.test(file))) {
    await step('original libraries', (say) =>
      ensurePackages(python, env, say, 'originals.txt', ORIGINALS, { dependencies: false }),
    );
  }
  const chosen = fast ? ['-m', 'not slow'] : [];
  const pytest = ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', ...chosen, ...inPython];
  const first = inPython.length === 0 ? 0 : await passThrough(python, pytest, { cwd: root, env: toolsEnv });
  const second = inTypeScript.length === 0 ? 0 : await runTests(inTypeScript, torchEnv);
  if (only.length === 0) await step('types of Python', () => checkTypes(python, toolsEnv));
  return first || second;
}

/** Returns the Python with PyTorch. If it is missing, `shardlab engine torch` makes it and shows its progress on stderr. */
async function ensureTorch(env, say, options) {
  const named = env.SHARDLAB_TORCH_PYTHON;
  if (named) {
    const found = fromBuild('torch/find-python').describeTorch(named);
    if (typeof found !== 'string') {
      say(`${found.torch} of ${named}, as SHARDLAB_TORCH_PYTHON says`);
      return named;
    }
    throw new StepError(`SHARDLAB_TORCH_PYTHON is ${named}: ${found}.`, 'correct it, or unset it');
  }
  const command = join(root, 'build', 'src', 'cli', 'main.js');
  const stdio = ['ignore', 'pipe', 'inherit'];
  const made = await capture(process.execPath, [command, 'engine', 'torch', ...options, '--json'], {
    env,
    stdio,
  });
  if (made.code !== 0) {
    throw new StepError(
      'There is no PyTorch for these tests; the lines above say why.',
      'or name a Python that has it: SHARDLAB_TORCH_PYTHON=/path/to/python npm run test:torch',
    );
  }
  const { python, torch } = JSON.parse(made.stdout);
  say(`${torch} of ${python}`);
  return python;
}

/** Installs the packages of a requirement file of test/torch into a folder, unless the folder has them. */
async function ensurePackages(python, env, say, file, target, options = {}) {
  const requirements = join(root, 'test', 'torch', file);
  const stamp = join(target, '.shardlab');
  const version = await mustRun(python, ['--version'], { env }, `${python} does not run.`);
  const hash = createHash('sha256')
    .update(`${version.stdout}${readFileSync(requirements)}`)
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return say('up to date');
  rmSync(target, { recursive: true, force: true });
  const { installRequirements } = fromBuild('cli/install/pip');
  try {
    await installRequirements(python, [requirements], {
      packagesName: `the packages of ${file}`,
      env,
      target,
      ...options,
    });
  } catch (error) {
    throw error.advice ? new StepError(error.failure, ...error.advice) : error;
  }
  writeFileSync(stamp, hash);
}

async function checkTypes(python, env) {
  const cache = join(root, 'build', 'mypy');
  // Scripts of bundles have few annotations, and import packages that need not be installed.
  const loose = ['--check-untyped-defs', '--ignore-missing-imports'];
  for (const [folder, options] of [
    ['shardlab_torch', ['--strict']],
    ['launch_check', ['--strict', '--ignore-missing-imports']],
    ['bundle_scripts', loose],
  ]) {
    const args = ['-m', 'mypy', ...options, '--cache-dir', cache, join(PACKAGES, folder)];
    const result = await capture(python, args, { cwd: root, env });
    if (result.code === 0) continue;
    throw new StepError(
      `mypy complains about ${folder}:\n${result.missing?.message ?? lastLines(`${result.stdout}${result.stderr}`, 40)}`,
      'correct the lines named above and run the command again',
    );
  }
}

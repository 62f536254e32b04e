import { lastLines, type ProgramOptions, runProgram } from './run-program';
import { SetUpError } from './set-up-error';

/** Within this time, pip must begin to download or report an installed requirement, which shows that the index answers. */
const INDEX_PATIENCE_SECONDS = 60;
const INDEX_ANSWERS = /^\s*(Downloading|Using cached|Requirement already|Processing)/m;

/** The first pip that reports its downloads in lines for programs. */
const FIRST_WITH_RAW_PROGRESS = [24, 1] as const;

export interface PipOptions extends Omit<ProgramOptions, 'expect'> {
  /** A name for the installed packages, used in messages. */
  readonly packagesName: string;
  readonly patienceSeconds?: number;
  /** Installs into this folder; default: into the Python's virtual environment. */
  readonly target?: string;
  /** Whether the packages' dependencies are installed too. Default true. */
  readonly dependencies?: boolean;
}

/**
 * Installs the packages of requirement files. pip reads no PYTHONPATH, and without `target` it installs only into a virtual
 * environment. Throws: ENGINE (a SetUpError) if pip fails or the index does not answer.
 */
export async function installRequirements(
  python: string,
  files: readonly string[],
  {
    packagesName,
    patienceSeconds = INDEX_PATIENCE_SECONDS,
    target,
    dependencies,
    env,
    signal,
    line,
  }: PipOptions,
): Promise<void> {
  const pip = ['-I', '-m', 'pip'];
  const place = target === undefined ? [] : ['--target', target];
  if (dependencies === false) place.push('--no-deps');
  const safe = { ...env, PIP_USER: '0', ...(target === undefined ? { PIP_REQUIRE_VIRTUALENV: '1' } : {}) };
  const bar = line === undefined ? [] : await progressFlags(python, { env, signal });
  const flags = ['--retries', '1', '--no-input', '--disable-pip-version-check', ...bar];
  const args = [...pip, 'install', ...flags, ...place, ...files.flatMap((file) => ['-r', file])];
  const expect = { pattern: INDEX_ANSWERS, seconds: patienceSeconds };
  const result = await runProgram(python, args, { env: safe, expect, signal, line });
  if (result.code === 0) return;
  const reason = result.isLate
    ? `the package index did not answer within ${patienceSeconds} s`
    : (result.missing?.message ?? lastLines(result.stderr || result.stdout, 8));
  throw new SetUpError(`pip did not install ${packagesName}:\n${reason}`, [
    `is the package index reachable? ${python} -m pip config list names it; behind a proxy: HTTPS_PROXY=URL`,
    'for a private certificate authority: PIP_CERT=FILE; for a private index: pip config set global.index-url URL',
  ]);
}

/** Whether a Python runs and has pip. */
export async function hasPip(python: string, options: ProgramOptions): Promise<boolean> {
  return (await runProgram(python, ['-I', '-m', 'pip', '--version'], options)).code === 0;
}

async function progressFlags(python: string, options: ProgramOptions): Promise<readonly string[]> {
  const { stdout } = await runProgram(python, ['-I', '-m', 'pip', '--version'], options);
  const [, major = 0, minor = 0] = (/^pip (\d+)\.(\d+)/.exec(stdout) ?? []).map(Number);
  const [leastMajor, leastMinor] = FIRST_WITH_RAW_PROGRESS;
  const isNew = major > leastMajor || (major === leastMajor && minor >= leastMinor);
  return isNew ? ['--progress-bar', 'raw'] : [];
}

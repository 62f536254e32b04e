import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { ConfigError, makeFolder, ShardlabError } from '../../core';
import { completeMark, readTorch, TORCH_PROBE, type TorchVersions, torchEnvironment } from '../../torch';
import { INSTALLATION } from '../install/kernelspec-folder';
import { makeVenv, venvPython } from '../install/make-venv';
import { hasPip, installRequirements } from '../install/pip';
import { describePython } from '../install/python';
import { pythonsOnPath } from '../install/pythons-on-path';
import { lastLines, runProgram } from '../install/run-program';
import { SetUpError } from '../install/set-up-error';
import { type Io, orFail, progressOn } from '../io';
import { showPip } from './pip-progress';
import { downloadNotices } from './torch-wheels';

const PYTHON_FOLDER = join(INSTALLATION, 'src', 'python');
/** `ALWAYS`: the requirement files of every environment. `WITH_DEEPSPEED`: those of an environment with DeepSpeed. */
const ALWAYS = ['requirements.txt', 'requirements-accelerate.txt'].map((name) => join(PYTHON_FOLDER, name));
const WITH_DEEPSPEED = [...ALWAYS, join(PYTHON_FOLDER, 'requirements-deepspeed.txt')];
/** The oldest Python for which the required torch has wheels. */
const LEAST_PYTHON = [3, 10] as const;

/** The environment that the user asks for. */
export interface TorchRequest {
  /** The Python from which the environment is made. */
  readonly python?: string;
  /** Whether torch must have CUDA. */
  readonly cuda?: boolean;
  /** Whether the environment also gets DeepSpeed. */
  readonly deepspeed?: boolean;
}

/** A complete environment. */
export interface TorchEnvironment {
  readonly environment: string;
  readonly python: string;
  readonly torch: string;
  /** The version of CUDA for which torch is built. */
  readonly cuda: string | null;
  readonly ready: true;
}

/** The work on one environment. */
interface Work {
  readonly request: TorchRequest;
  readonly io: Io;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
  readonly environment: string;
}

/**
 * Makes the environment of PyTorch's ranks, or completes it; does nothing if the environment is complete. A complete
 * environment gets a mark, and ranks use no environment without this mark. Throws: CONFIG for a Python that does not fit,
 * ENGINE if a step fails, INTERRUPTED after `signal` is aborted.
 */
export async function ensureTorch(
  request: TorchRequest,
  io: Io,
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<TorchEnvironment> {
  const environment = torchEnvironment(io.env);
  const work = { request, io, note, signal, environment };
  const { files, missing, isMarked } = neededPackages(environment, request.deepspeed === true);
  const complete = isMarked && missing.length === 0 ? await versions(work) : 'it is not complete';
  if (typeof complete !== 'string') {
    if (request.python !== undefined) {
      note(`${environment} is complete, so --python has no effect; delete the folder to make it again`);
    }
    return asAnswer(work, complete);
  }
  if (isMarked && missing.length > 0)
    note(`${environment} has no ${missing.join(', ')}: pip adds what is missing`);
  for (const notice of downloadNotices(
    missing,
    `${process.platform}-${process.arch}`,
    request.cuda === true,
  )) {
    note(notice);
  }
  rmSync(completeMark(environment), { force: true });
  await makeEnvironment(work);
  await install(work, files);
  const versionsOrFailure = await versions(work);
  stopIfAsked(work);
  if (typeof versionsOrFailure === 'string') {
    throw new SetUpError(`${environment} does not work after the installation: ${versionsOrFailure}`, [
      `delete ${environment} and run \`npx shardlab engine torch\` again`,
    ]);
  }
  const answer = asAnswer(work, versionsOrFailure);
  mark(environment, files);
  return answer;
}

/** The requirements of an environment, and which of them it lacks. */
interface Needed {
  readonly files: readonly string[];
  /** Lines of `files` that the environment's mark does not contain. */
  readonly missing: readonly string[];
  /** Whether the environment was once complete, for the requirements of this or an earlier version of the library. */
  readonly isMarked: boolean;
}

/** Returns the requirements of an environment. If an environment has DeepSpeed, DeepSpeed remains a requirement. */
function neededPackages(environment: string, withDeepSpeed: boolean): Needed {
  const path = completeMark(environment);
  const isMarked = existsSync(path);
  const marked = isMarked ? packagesIn(readFileSync(path, 'utf8')) : [];
  const hasDeepSpeed = marked.some((line) => line.startsWith('deepspeed=='));
  const files = withDeepSpeed || hasDeepSpeed ? WITH_DEEPSPEED : ALWAYS;
  const missing = packagesIn(textOf(files)).filter((line) => !marked.includes(line));
  return { files, missing, isMarked };
}

function packagesIn(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

function mark(environment: string, files: readonly string[]): void {
  const path = completeMark(environment);
  writeFileSync(`${path}.part`, textOf(files));
  renameSync(`${path}.part`, path);
}

function textOf(files: readonly string[]): string {
  return files.map((file) => readFileSync(file, 'utf8')).join('');
}

async function makeEnvironment(work: Work): Promise<void> {
  const { request, io, note, signal, environment } = work;
  const options = { env: io.env, signal };
  const canContinue = request.python === undefined && existsSync(venvPython(environment));
  if (canContinue && (await hasPip(venvPython(environment), options))) {
    return note(`continuing in ${environment}`);
  }
  const pythons = await usablePythons(request.python, io);
  orFail(
    () => makeFolder(dirname(environment)),
    (reason, cause) =>
      new ShardlabError(
        'IO',
        `${environment} cannot be made (${reason}); set XDG_CACHE_HOME to another folder`,
        {
          cause,
        },
      ),
  );
  stopIfAsked(work);
  try {
    note(`made ${environment} ${await makeVenv(pythons, environment, options)}`);
  } catch (error) {
    stopIfAsked(work);
    if (!(error instanceof SetUpError)) throw error;
    throw new SetUpError(error.failure, [...error.advice, 'or another Python: --python /path/to/python']);
  }
}

/** Returns the Pythons that can make the environment. Throws: CONFIG if the given Python does not fit, ENGINE if there is none. */
async function usablePythons(namedPython: string | undefined, { env, cwd }: Io): Promise<readonly string[]> {
  const least = LEAST_PYTHON.join('.');
  if (namedPython !== undefined) {
    const python = namedPython.includes('/') ? resolve(cwd, namedPython) : namedPython;
    const description = await describePython(python, env);
    if (description === undefined) {
      throw new ConfigError(`--python ${namedPython} does not run; name a Python ${least} or newer`);
    }
    if (!isNewEnough(description.version)) {
      throw new ConfigError(
        `--python ${namedPython} is Python ${description.version}; torch needs ${least} or newer, so name another`,
      );
    }
    return [python];
  }
  const pythons = await Promise.all(pythonsOnPath(env).map((path) => describePython(path, env)));
  const usable = pythons.flatMap((python) =>
    python !== undefined && isNewEnough(python.version) ? [python.python] : [],
  );
  if (usable.length > 0) return usable;
  throw new SetUpError(`No Python ${least} or newer was found on the PATH; torch needs one.`, [
    'Debian, Ubuntu: sudo apt-get install python3 python3-venv',
    'macOS: brew install python',
    'or name one: npx shardlab engine torch --python /path/to/python',
  ]);
}

function isNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > LEAST_PYTHON[0] || (major === LEAST_PYTHON[0] && minor >= LEAST_PYTHON[1]);
}

async function install(work: Work, files: readonly string[]): Promise<void> {
  const { io, signal, environment } = work;
  const progress = showPip(progressOn(io));
  try {
    await installRequirements(venvPython(environment), files, {
      packagesName: `torch, numpy, safetensors${files === WITH_DEEPSPEED ? ', accelerate and deepspeed' : ' and accelerate'}`,
      // DeepSpeed compiles its operations at their first use, not now.
      env: { ...io.env, DS_BUILD_OPS: '0' },
      signal,
      line: progress.line,
    });
  } catch (error) {
    stopIfAsked(work);
    throw error;
  } finally {
    progress.end();
  }
  stopIfAsked(work);
}

/** Returns the versions that the environment's Python has, or a text that says what is missing. */
async function versions({ io, signal, environment }: Work): Promise<TorchVersions | string> {
  const ran = await runProgram(venvPython(environment), ['-c', TORCH_PROBE], { env: io.env, signal });
  if (ran.code === 0) return readTorch(ran.stdout);
  return ran.missing?.message ?? lastLines(ran.stderr, 1);
}

/** Returns the complete environment. Throws: CONFIG if the request asks for CUDA and torch is built without it. */
function asAnswer({ request, environment }: Work, { torch, cuda }: TorchVersions): TorchEnvironment {
  if (request.cuda === true && cuda === null) {
    throw new ConfigError(
      `${environment} has torch ${torch}, which is built without CUDA because pip's index has only this build; ` +
        'delete the folder, unset PIP_INDEX_URL and PIP_EXTRA_INDEX_URL, and run the command again',
    );
  }
  return { environment, python: venvPython(environment), torch, cuda, ready: true };
}

function stopIfAsked({ signal, environment }: Work): void {
  if (!signal.aborted) return;
  throw new ShardlabError(
    'INTERRUPTED',
    `stopped; ${environment} is not complete, so ranks do not use it; \`npx shardlab engine torch\` continues the installation`,
  );
}

import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { Progress, type ProgressPlace } from '../../cell';
import { nearest, WHOLE_SETTINGS } from '../../config';
import { type Bytes, ConfigError, formatBytes, installAdvice, makeFolder, ShardlabError } from '../../core';
import { sitePackages } from '../../launch';
import {
  completeMark,
  readTorch,
  TORCH_PROBE,
  type TorchVersions,
  torchEnvironment,
  torchSupport,
} from '../../torch';
import { asLine, type Check, checkWasm } from '../doctor/checks';
import { checkTorch } from '../doctor/torch-checks';
import { INSTALLATION } from '../install/kernelspec-folder';
import { makeVenv, venvPython } from '../install/make-venv';
import { hasPip, installRequirements } from '../install/pip';
import { describePython } from '../install/python';
import { pythonsOnPath } from '../install/pythons-on-path';
import { lastLines, runProgram } from '../install/run-program';
import { SetUpError } from '../install/set-up-error';
import { type Io, type Output, orFail, type Perform, progressOn } from '../io';

const NAMES = ['wasm', 'torch'] as const;

interface EngineOptions extends TorchRequest {
  readonly settings?: boolean;
}

/** `shardlab engine`: lists engines, and makes the environment of engine 'torch'. */
export function declareEngine(command: Command, perform: Perform, io: Io): void {
  command
    .argument('[name]', `${NAMES.join(' or ')}; without a name, lists engines`)
    .option('--cuda', 'engine torch: fails if the installed torch has no CUDA')
    .option(
      '--deepspeed',
      "engine torch: also installs DeepSpeed, for job.train(config, { framework: 'deepspeed' })",
    )
    .option('--python <path>', 'engine torch: the Python from which the environment is made')
    .option('--settings', "engine torch: lists what PyTorch's ranks do with each setting of a config");
  perform<EngineOptions>(command, async ([name], options, output) => {
    checkUsage(name, options);
    if (options.settings === true) output.answer({ settings: settings() }, settingsText);
    else if (name === 'torch') await makeTorch(options, io, output);
    else await listEngines(name, io, output);
    return 0;
  });
}

function checkUsage(
  name: string | undefined,
  { cuda, deepspeed, python, settings: lists }: EngineOptions,
): void {
  if (name !== undefined && !NAMES.some((known) => known === name)) {
    const near = nearest(name, NAMES);
    throw new ConfigError(
      `there is no engine '${name}'; ${near === undefined ? `give ${NAMES.join(' or ')}` : `did you mean ${near}?`}`,
    );
  }
  const torchOption = Object.entries({ '--cuda': cuda, '--deepspeed': deepspeed, '--python': python }).find(
    ([, value]) => value !== undefined,
  );
  if (torchOption !== undefined && (name !== 'torch' || lists === true)) {
    throw new ConfigError(
      `${torchOption[0]} belongs to \`shardlab engine torch\`, which makes the environment`,
    );
  }
  if (lists === true && name === 'wasm') {
    throw new ConfigError(
      "--settings lists what PyTorch's ranks do; engine wasm does every setting (docs/reference/settings.md)",
    );
  }
}

async function makeTorch(request: TorchRequest, io: Io, output: Output): Promise<void> {
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  const signals = ['SIGINT', 'SIGTERM'] as const;
  for (const name of signals) process.on(name, interrupt);
  try {
    const made = await ensureTorch(request, io, output.note, stop.signal);
    const named = io.env.SHARDLAB_TORCH_PYTHON;
    if (named) output.note(`ranks use ${named} instead, because SHARDLAB_TORCH_PYTHON names it`);
    const cuda = made.cuda === null ? 'without CUDA' : `CUDA ${made.cuda}`;
    output.answer(made, () => `ready: torch ${made.torch} (${cuda}) in ${made.environment}`);
  } finally {
    for (const name of signals) process.off(name, interrupt);
  }
}

async function listEngines(name: string | undefined, io: Io, output: Output): Promise<void> {
  const [wasm] = await checkWasm(sitePackages(io.env, INSTALLATION));
  const [torch] = await checkTorch(io.env, { withImport: false });
  const rows = { wasm, torch } satisfies Record<(typeof NAMES)[number], Check | undefined>;
  const shown = Object.entries(rows).flatMap(([engine, check]) =>
    check === undefined || (name !== undefined && name !== engine) ? [] : [{ engine, check }],
  );
  const engines = shown.map(({ engine, check: { status, found, advice } }) => {
    return { name: engine, ready: status === 'good', found, ...(advice === undefined ? {} : { advice }) };
  });
  output.answer({ engines }, () => shown.map(({ check }) => asLine(check)).join('\n'));
}

/** A setting, and what PyTorch's ranks do with it under the default framework. */
interface SettingRow {
  readonly setting: string;
  readonly support: 'done' | 'refused' | 'ignored';
  readonly reason?: string;
}

function settings(): readonly SettingRow[] {
  return WHOLE_SETTINGS.map((row): SettingRow => {
    const [setting, support] = [row.path, torchSupport(row)];
    if (support === 'done') return { setting, support };
    return 'refused' in support
      ? { setting, support: 'refused', reason: support.refused }
      : { setting, support: 'ignored', reason: support.ignored };
  });
}

const WORDS = { done: '✓ done', ignored: '· no effect', refused: '✗ refused' } as const;

function settingsText(): string {
  const rows = settings();
  const width = Math.max(...rows.map(({ setting }) => setting.length));
  return rows
    .map(({ setting, support, reason = '' }) =>
      `${setting.padEnd(width)}  ${WORDS[support].padEnd(11)}  ${reason}`.trimEnd(),
    )
    .join('\n');
}

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
async function ensureTorch(
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
      `delete ${environment} and run \`${installAdvice().command('engine torch')}\` again`,
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
    `or name one: ${installAdvice().command('engine torch --python /path/to/python')}`,
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
    `stopped; ${environment} is not complete, so ranks do not use it; \`${installAdvice().command('engine torch')}\` continues the installation`,
  );
}

/** Shows pip's progress, one piece of work after another, from the lines that pip prints. */
export interface PipProgress {
  /** Takes a line of pip's stdout. */
  line(text: string): void;
  end(): void;
}

/** Shows a bar per file that pip downloads, and the time while it installs. */
export function showPip(place: ProgressPlace): PipProgress {
  let progress: Progress | undefined;
  const begin = (activity: string): void => {
    progress?.end();
    progress = new Progress(activity, 'bytes', place);
  };
  begin('asking the package index');
  return {
    line(text) {
      const [, file] = /^\s*Downloading (?:\S*\/)?([^\s/]+\.(?:whl|gz|zip)(?: \(.*\))?)\s*$/.exec(text) ?? [];
      const [, done, total] = /^Progress (\d+) of (\d+)/.exec(text) ?? [];
      if (total !== undefined) progress?.show(Number(done), Number(total));
      else if (file !== undefined) begin(`downloading ${file}`);
      else if (text.startsWith('Installing collected packages')) begin('installing the packages');
    },
    end: () => progress?.end(),
  };
}

/** The sizes of a CUDA build of torch on PyPI, in bytes. */
interface CudaBuild {
  readonly torchBytes: Bytes;
  /** Bytes of the CUDA libraries and Triton, which the build needs. */
  readonly libraryBytes: Bytes;
}

/** The index with PyTorch's builds for CPUs. */
const CPU_INDEX = 'https://download.pytorch.org/whl/cpu';

/**
 * The build of torch that PyPI has, by platform; for a platform that is not listed, the build is unknown. Source: the
 * files of torch 2.13.0 and of its requirements on PyPI.
 */
const BUILDS: Readonly<Record<string, CudaBuild | 'no CUDA' | undefined>> = {
  'linux-x64': { torchBytes: 527e6, libraryBytes: 2.2e9 },
  'darwin-arm64': 'no CUDA',
};

/** Bytes of smaller packages and of requirements that torch does not need. Source: the files on PyPI for Linux x64. */
const SMALL_PACKAGES: Readonly<Record<string, Bytes>> = { accelerate: 7e6, deepspeed: 6e6 };

/**
 * Returns what the user must know before the packages of requirement files (`lines`) are downloaded. Throws: CONFIG if the
 * user wants CUDA and PyPI has no build with CUDA for the platform.
 */
export function downloadNotices(
  lines: readonly string[],
  platform: string,
  wantsCuda: boolean,
): readonly string[] {
  const names = lines.map((line) => line.replace(/==.*/, ''));
  const small = names.filter((name) => name in SMALL_PACKAGES);
  const bytes = small.reduce((sum, name) => sum + (SMALL_PACKAGES[name] ?? 0), 0);
  const notice = torchNotice(platform, wantsCuda);
  return [
    ...(names.includes('torch') && notice !== '' ? [notice] : []),
    ...(small.length > 0 ? [`${small.join(' and ')}, with requirements: about ${formatBytes(bytes)}`] : []),
  ];
}

function torchNotice(platform: string, wantsCuda: boolean): string {
  const build = BUILDS[platform];
  if (build === 'no CUDA' && wantsCuda) {
    throw new ConfigError(`PyPI has no torch with CUDA for ${platform}; leave --cuda out`);
  }
  if (build === undefined || build === 'no CUDA') return '';
  const size = `${formatBytes(build.torchBytes)} of torch and about ${formatBytes(build.libraryBytes)} of CUDA libraries`;
  if (wantsCuda) return `pip downloads ${size}, unless these files are in its cache`;
  return (
    `PyPI has only the CUDA build of torch for ${platform}, which also runs on CPUs: pip downloads ${size}, ` +
    `unless these files are in its cache, or pip uses another index; for the smaller CPU build, set PIP_EXTRA_INDEX_URL=${CPU_INDEX}`
  );
}

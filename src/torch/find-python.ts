import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { ConfigError, findInstallation, installAdvice, ShardlabError } from '../core';
import { systemLimits } from '../launch';

/** The oldest PyTorch that the ranks' program supports. */
export const OLDEST_TORCH = '2.6';

/** The PyTorch that `shardlab engine torch` installs (src/python/requirements.txt), and with which ranks are tested. */
export const TESTED_TORCH = '2.13';

/** Facts about a Python and its PyTorch. */
export interface TorchFound {
  readonly torch: string;
  readonly python: string;
  readonly safetensors: boolean;
  readonly cuda: string | null;
  readonly nccl: string | null;
  readonly gpus: readonly string[];
}

/** Returns the folder of the environment that `shardlab engine torch` makes. */
export function torchEnvironment(env: NodeJS.ProcessEnv = process.env): string {
  const cache = env.XDG_CACHE_HOME || join(env.HOME || homedir(), '.cache');
  return join(cache, 'shardlab', 'torch');
}

/** Returns the file that says that the environment is complete; `shardlab engine torch` writes it last. */
export function completeMark(environment: string): string {
  return join(environment, '.shardlab-complete');
}

/** Returns the folder of this package's Python. */
export function packagesFolder(): string {
  return join(findInstallation(), 'src', 'python');
}

/** Returns PYTHONPATH with the folder of this package's Python first. */
export function pythonPath(): string {
  return [packagesFolder(), process.env.PYTHONPATH ?? ''].filter((path) => path !== '').join(delimiter);
}

/** A Python for ranks, or the reason why there is none. */
type TorchPython =
  | { readonly python: string; readonly isNamed: boolean }
  | { readonly python?: never; readonly missing: string };

/** Returns the Python of SHARDLAB_TORCH_PYTHON, else the Python of `shardlab engine torch` if its environment is complete. */
export function torchPython(env: NodeJS.ProcessEnv = process.env): TorchPython {
  const named = env.SHARDLAB_TORCH_PYTHON;
  if (named !== undefined && named !== '') return { python: named, isNamed: true };
  const environment = torchEnvironment(env);
  const python = join(environment, 'bin', 'python');
  if (existsSync(completeMark(environment))) return { python, isNamed: false };
  return { missing: existsSync(python) ? `the environment ${environment} is not complete` : 'none is known' };
}

/**
 * Returns the Python of ranks: the given one, else the Python of SHARDLAB_TORCH_PYTHON, or of `shardlab engine torch`.
 * Throws: CONFIG if there is none, or if it has no PyTorch.
 */
export function findTorch(given: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  const own = given === undefined ? torchPython(env) : { python: given };
  const { python } = own;
  if (python === '')
    throw new ConfigError('python is empty; name the Python that has PyTorch, or leave python out', {
      python,
    });
  if (python === undefined) {
    throw new ConfigError(
      `engine 'torch' needs a Python with PyTorch, and ${own.missing}: run \`${installAdvice().command('engine torch')}\` once, or name a Python: ` +
        "set SHARDLAB_TORCH_PYTHON=/path/to/python, or launch({ engine: 'torch', ranks: 2, python: '/path/to/python' })",
    );
  }
  const found = describeTorch(python);
  if (typeof found === 'string') {
    throw new ConfigError(
      `${python} cannot run ranks of engine 'torch': ${found}; run \`${installAdvice().command('engine torch')}\`, or name another Python in SHARDLAB_TORCH_PYTHON or the option python`,
      { python },
    );
  }
  return python;
}

/**
 * Prints the JSON that `readTorch` reads; runs only PyTorch's version file, because an import of PyTorch takes seconds. Ranks
 * import from the current folder first, so a file there may hide a module that they need; the probe then names this file.
 */
export const TORCH_PROBE = `
import os, sys
def tell(kind, error, trace):
  files = [getattr(module, '__file__', None) for module in list(sys.modules.values())] + [getattr(error, 'filename', None)]
  while trace: files.append(trace.tb_frame.f_code.co_filename); trace = trace.tb_next
  paths = [os.path.abspath(file) for file in files if isinstance(file, str) and file.endswith('.py')]
  owners = [os.path.dirname(path) if os.path.basename(path) == '__init__.py' else path for path in paths]
  hiding = [owner for owner in owners if os.path.dirname(owner) == os.getcwd()]
  hint = f'; {hiding[0]} hides a module of the same name that PyTorch or Python has: rename it' if hiding else ''
  sys.stderr.write(f'{kind.__name__}: {error}{hint}'.replace(chr(10), ' ') + chr(10))
sys.excepthook = tell
import importlib.util, json
spec = importlib.util.find_spec('torch')
if spec is None or spec.origin is None: print(json.dumps({'missing': 'it has no torch'})); sys.exit()
version = os.path.join(os.path.dirname(spec.origin), 'version.py')
if not spec.submodule_search_locations or not os.path.isfile(version):
  print(json.dumps({'missing': f'its torch is {spec.origin}, which is not PyTorch: rename this file or its folder'})); sys.exit()
scope = {}
exec(open(version).read(), scope)
print(json.dumps({'torch': scope['__version__'].__str__(), 'cuda': scope.get('cuda'), 'python': sys.version.split()[0],
  'safetensors': importlib.util.find_spec('safetensors') is not None}), flush=True)
`;

/** The facts about a Python that are known without an import of PyTorch. */
export type TorchVersions = Omit<TorchFound, 'gpus' | 'nccl'>;

/**
 * Returns the versions of a Python and its packages, or a text that says what is missing. Throws: LAUNCH if a limit of the system
 * prevents the start of any program.
 */
export function describeTorch(python: string): TorchVersions | string {
  try {
    const said = execFileSync(python, ['-c', TORCH_PROBE], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    });
    return readTorch(said);
  } catch (error) {
    const limit = systemLimits.limitBehind(error);
    if (limit !== '')
      throw new ShardlabError('LAUNCH', `${python} could not be started${limit}`, { cause: error });
    // A program that cannot be started has no output.
    const { stderr, message, code } = error as { stderr?: string | null; message: string; code?: string };
    const reason = stderr?.trim().split('\n').at(-1) || message;
    return START_ERRORS[code ?? ''] ?? `it does not answer as a Python does (${reason})`;
  }
}

const START_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such program',
  EACCES: 'it is not a program that this user may run',
  ETIMEDOUT: 'it did not answer within 60 s',
};

/** Returns the versions in the first line of TORCH_PROBE's output, or a text that says what is missing. */
export function readTorch(stdout: string): TorchVersions | string {
  const [line = ''] = stdout.split('\n', 1);
  const found = JSON.parse(line) as (TorchVersions & { missing?: undefined }) | { missing: string };
  if (found.missing !== undefined) return found.missing;
  if (!isAtLeast(found.torch, OLDEST_TORCH)) {
    return `its torch is ${found.torch}, and ranks need ${OLDEST_TORCH} or newer (tested: ${TESTED_TORCH})`;
  }
  if (!found.safetensors) return 'it has no safetensors (pip install safetensors)';
  return found;
}

function isAtLeast(version: string, least: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor = 0, leastMinor = 0] = least.split('.').map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

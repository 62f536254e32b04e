import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors';

/** The oldest PyTorch that the ranks' program supports. */
export const OLDEST_TORCH = '2.6';

/** What a Python says of its PyTorch. */
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

/**
 * Returns the Python of ranks: the given one, that of SHARDLAB_TORCH_PYTHON, or that of `shardlab engine torch`. Throws: CONFIG if there
 * is none, or if it has no PyTorch.
 */
export function findTorch(given: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  const python = given ?? env.SHARDLAB_TORCH_PYTHON ?? join(torchEnvironment(env), 'bin', 'python');
  if (given === undefined && !existsSync(python)) {
    throw new ConfigError(
      "engine 'torch' needs a Python with PyTorch, and none is known: run `npx shardlab engine torch` once, or name one, " +
        "as launch({ engine: 'torch', ranks: 2, python: '/path/to/python' })",
    );
  }
  const found = describeTorch(python);
  if (typeof found === 'string') {
    throw new ConfigError(
      `${python} cannot run ranks of engine 'torch': ${found}; run \`npx shardlab engine torch\`, or name another Python with python`,
      { python },
    );
  }
  return python;
}

/** Prints what `describeTorch` reads; imports PyTorch's version file only, because all of PyTorch takes seconds. */
const PROBE = `
import importlib.util, json, os, sys
spec = importlib.util.find_spec('torch')
if spec is None: print(json.dumps({'missing': 'it has no torch'})); sys.exit()
scope = {}
exec(open(os.path.join(os.path.dirname(spec.origin), 'version.py')).read(), scope)
print(json.dumps({'torch': scope['__version__'].__str__(), 'cuda': scope.get('cuda'), 'python': sys.version.split()[0],
  'safetensors': importlib.util.find_spec('safetensors') is not None}))
`;

/** Returns what a Python has, without what only an import of PyTorch shows; or a text that says what is missing. */
export function describeTorch(python: string): Omit<TorchFound, 'gpus' | 'nccl'> | string {
  let said: string;
  try {
    said = execFileSync(python, ['-c', PROBE], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    });
  } catch (error) {
    const { stderr = '', message } = error as { stderr?: string; message: string };
    return stderr.trim().split('\n').at(-1) || message;
  }
  const found = JSON.parse(said) as (TorchFound & { missing?: undefined }) | { missing: string };
  if (found.missing !== undefined) return found.missing;
  if (!isAtLeast(found.torch, OLDEST_TORCH)) {
    return `its torch is ${found.torch}, and ranks need ${OLDEST_TORCH} or newer`;
  }
  if (!found.safetensors) return 'it has no safetensors (pip install safetensors)';
  return found;
}

function isAtLeast(version: string, least: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor = 0, leastMinor = 0] = least.split('.').map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

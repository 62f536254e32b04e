import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lastLines, type ProgramOptions, type ProgramResult, runProgram } from './run-program';
import { SetUpError } from './set-up-error';

/** Makes a virtual environment; returns how the command ended. */
type Make = (python: string, folder: string, options: ProgramOptions) => Promise<ProgramResult>;

/** The ways to make a virtual environment with pip, the usual way first. */
const WAYS: readonly { readonly name: string; readonly make: Make }[] = [
  { name: 'venv', make: (python, folder, options) => runProgram(python, ['-m', 'venv', folder], options) },
  {
    name: 'virtualenv',
    make: (python, folder, options) => runProgram(python, ['-m', 'virtualenv', folder], options),
  },
  {
    name: 'virtualenv command',
    make: (python, folder, options) => runProgram('virtualenv', ['--python', python, folder], options),
  },
  { name: 'venv, pip from outside', make: venvWithOuterPip },
  { name: 'virtualenv by pip', make: virtualenvByPip },
];

/**
 * Deletes `folder` and makes a virtual environment there. Tries every way with every Python until one way works; returns a
 * text that names this way and its Python. Throws: ENGINE (a SetUpError) if no way works, or if `options.signal` was aborted.
 */
export async function makeVenv(
  pythons: readonly string[],
  folder: string,
  options: ProgramOptions,
): Promise<string> {
  const reasons: string[] = [];
  for (const { name, make } of WAYS) {
    for (const python of pythons) {
      if (options.signal?.aborted === true) break;
      rmSync(folder, { recursive: true, force: true });
      const made = await make(python, folder, options);
      const pip =
        made.code === 0 ? await runProgram(venvPython(folder), ['-m', 'pip', '--version'], options) : made;
      if (pip.code === 0) return `by ${name} of ${python}`;
      reasons.push(`  ${python}, ${name}: ${reasonOf(pip)}`);
    }
  }
  rmSync(folder, { recursive: true, force: true });
  throw new SetUpError(
    `No Python on this machine can make a virtual environment:\n${[...new Set(reasons)].join('\n')}`,
    ['Debian, Ubuntu: sudo apt-get install python3-venv', 'or: python3 -m pip install --user virtualenv'],
  );
}

/** Returns the path of a virtual environment's python. */
export function venvPython(folder: string): string {
  return join(folder, 'bin', 'python');
}

async function venvWithOuterPip(
  python: string,
  folder: string,
  options: ProgramOptions,
): Promise<ProgramResult> {
  const made = await runProgram(python, ['-m', 'venv', '--without-pip', folder], options);
  if (made.code !== 0) return made;
  const args = ['-m', 'pip', '--python', venvPython(folder), 'install', '--retries', '1', 'pip'];
  return runProgram(python, args, options);
}

async function virtualenvByPip(
  python: string,
  folder: string,
  options: ProgramOptions,
): Promise<ProgramResult> {
  const target = mkdtempSync(join(tmpdir(), 'shardlab-virtualenv-'));
  try {
    const args = ['-m', 'pip', 'install', '--retries', '1', '--target', target, 'virtualenv'];
    const installed = await runProgram(python, args, options);
    if (installed.code !== 0) return installed;
    const env = { ...options.env, PYTHONPATH: target };
    return await runProgram(python, ['-m', 'virtualenv', folder], { ...options, env });
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
}

function reasonOf({ code, stdout, stderr, missing }: ProgramResult): string {
  if (missing !== undefined) return missing.message;
  const text = `${stdout}\n${stderr}`;
  if (/ensurepip is not\s+available/.test(text)) {
    return 'ensurepip is not available (python3-venv is not installed)';
  }
  return lastLines(text, 1).trim() || `exit status ${code}`;
}

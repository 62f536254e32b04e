import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { capture, lastLines } from './run.mjs';
import { StepError } from './step.mjs';

/** The ways to make a virtual environment with pip, the usual way first. `make` returns the result of the command. */
const WAYS = [
  { name: 'venv', make: (python, folder, env) => capture(python, ['-m', 'venv', folder], { env }) },
  {
    name: 'virtualenv',
    make: (python, folder, env) => capture(python, ['-m', 'virtualenv', folder], { env }),
  },
  {
    name: 'virtualenv command',
    make: (python, folder, env) => capture('virtualenv', ['--python', python, folder], { env }),
  },
  { name: 'venv, pip from outside', make: venvWithOuterPip },
  { name: 'virtualenv by pip', make: virtualenvByPip },
];

/** Makes a virtual environment in `folder` by the first Python and way that work; returns a text that names both. */
export async function makeVenv(pythons, folder, env) {
  const reasons = [];
  for (const { name, make } of WAYS) {
    for (const python of pythons) {
      rmSync(folder, { recursive: true, force: true });
      const made = await make(python, folder, env);
      const pip = made.code === 0 && (await capture(venvPython(folder), ['-m', 'pip', '--version'], { env }));
      if (pip && pip.code === 0) return `by ${name} of ${python}`;
      const failed = pip || made;
      reasons.push(`  ${python}, ${name}: ${reasonOf(failed)}`);
    }
  }
  rmSync(folder, { recursive: true, force: true });
  throw new StepError(
    `No Python on this machine can make a virtual environment:\n${[...new Set(reasons)].join('\n')}`,
    'Debian, Ubuntu: sudo apt-get install python3-venv',
    'or: python3 -m pip install --user virtualenv',
    'or use a Python that has JupyterLab, plotly and numpy: SHARDLAB_PYTHON=/path/to/python npm start',
  );
}

/** Returns the path of a virtual environment's python. */
export function venvPython(folder) {
  return join(folder, 'bin', 'python');
}

async function venvWithOuterPip(python, folder, env) {
  const made = await capture(python, ['-m', 'venv', '--without-pip', folder], { env });
  if (made.code !== 0) return made;
  return capture(python, ['-m', 'pip', '--python', venvPython(folder), 'install', '--retries', '1', 'pip'], {
    env,
  });
}

async function virtualenvByPip(python, folder, env) {
  const target = mkdtempSync(join(tmpdir(), 'shardlab-virtualenv-'));
  try {
    const args = ['-m', 'pip', 'install', '--retries', '1', '--target', target, 'virtualenv'];
    const installed = await capture(python, args, { env });
    if (installed.code !== 0) return installed;
    return await capture(python, ['-m', 'virtualenv', folder], { env: { ...env, PYTHONPATH: target } });
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
}

function reasonOf(result) {
  if (result.missing) return result.missing.message;
  const text = `${result.stdout}\n${result.stderr}`;
  if (/ensurepip is not\s+available/.test(text))
    return 'ensurepip is not available (python3-venv is not installed)';
  return lastLines(text, 1).trim() || `exit status ${result.code}`;
}

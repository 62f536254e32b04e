import { existsSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fromBuild } from '../from-build.mjs';
import { root } from '../places.mjs';
import { mustRun } from '../run.mjs';
import { StepError } from '../step.mjs';

const SCRIPTS = join(root, 'scripts', 'python');

/** The folder into which pip installs Pillow, so that the environment of `npm start` stays small. */
function packages(state) {
  return join(state, state === root ? 'build' : '', 'pillow');
}

/** Installs Pillow if it is missing. */
export async function ensurePacker({ python, state, env }, say) {
  const target = packages(state);
  if (existsSync(join(target, 'PIL'))) {
    say('up to date');
    return;
  }
  try {
    await fromBuild('cli/install/pip').installRequirements(
      python,
      [join(SCRIPTS, 'requirements-pictures.txt')],
      { packagesName: 'Pillow', env, target },
    );
  } catch (error) {
    if (error.advice === undefined) throw error;
    throw new StepError(error.failure, ...error.advice);
  }
}

/** Writes pictures with a palette each: `stills` are { from, to }, `films` are { frames, seconds, to }. */
export async function pack({ python, state, env }, folder, work) {
  const file = join(folder, 'work.json');
  writeFileSync(file, JSON.stringify(work));
  const path = [packages(state), env.PYTHONPATH].filter(Boolean).join(delimiter);
  await mustRun(
    python,
    [join(SCRIPTS, 'pack_pictures.py'), file],
    { env: { ...env, PYTHONPATH: path } },
    'The pictures could not be packed.',
  );
}

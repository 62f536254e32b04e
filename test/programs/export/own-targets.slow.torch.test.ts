import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { assertSameLosses, IS_WHOLE, lossesOf, oneJob, testFolder } from './export-fixture';
import { OWN_MODELS } from './own-models';
import { PYTHON_MODELS } from './python-models';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';

/** Returns why a test of a package is skipped; false: it is installed. */
function without(name: string): string | false {
  if (python === '') return 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';
  const probe = `import importlib.util, sys; sys.exit(importlib.util.find_spec('${name}') is None)`;
  return spawnSync(python, ['-c', probe]).status !== 0 && `${python} has no ${name} (pip install ${name})`;
}

const RANKS = 2;
const STEPS = 4;

const jobOf = oneJob();

/** Accelerate trains under DDP on CPUs, whatever the YAML says. */
const TARGETS = [
  ['accelerate', 'NO_SHARD', './launch_0.sh'],
  ['deepspeed', 'ZERO_1', './launch.sh'],
  ['deepspeed', 'FULL_SHARD', './launch.sh'],
  ['accelerate', 'FULL_SHARD', './launch_0.sh'],
] as const;

/** Four models of each language, each by one of the targets; SHARDLAB_ALL_PLACES=1 runs all models by all targets. */
const most = IS_WHOLE ? undefined : TARGETS.length;
const MODELS = [
  ...Object.entries(OWN_MODELS)
    .slice(0, most)
    .map(([name, training]) => ['wasm', name, training] as const),
  ...Object.entries(PYTHON_MODELS)
    .slice(0, most)
    .map(([name, training]) => ['torch', name, training] as const),
];

for (const [i, [engine, name, training]] of MODELS.entries()) {
  for (const [at, [to, strategy, script]] of TARGETS.entries()) {
    if (!IS_WHOLE && i % TARGETS.length !== at) continue;
    test(`${to} trains ${name} under ${strategy} with the losses of the run here`, {
      skip: without(to),
    }, async (context) => {
      const folder = testFolder(context);
      const settings = {
        steps: STEPS,
        optimizer: { lr: 0.01 },
        parallel: { ...training.parallel, strategy },
      };
      const input = { ...training, ...settings } as TrainConfigInput; // each training has its own types
      const run = await (
        await jobOf({ engine, ranks: RANKS, ...(engine === 'wasm' && { blas: 'none' }) })
      ).train(input);
      const out = join(folder, 'bundle');
      await run.export({ to, out });
      await run.step(STEPS);
      const there = await lossesOf(out, script, { ACCELERATE_USE_CPU: 'true', DS_ACCELERATOR: 'cpu' });
      assertSameLosses(run.losses, there, STEPS);
      await run.dispose();
      rmSync(folder, { recursive: true, force: true });
    });
  }
}

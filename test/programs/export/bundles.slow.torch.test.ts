import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { Job } from '../../../src/session/run/job';
import { launch } from '../../../src/session/run/launch';
import { startSlurm } from '../../torch/slurm';
import { GPT, LLAMA, testFolder } from './export-fixture';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
const skip = python === '' && 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';

/** Returns why a test of a package is skipped; false: it is installed. */
function without(name: string): string | false {
  if (skip !== false) return skip;
  const { status } = spawnSync(python, [
    '-c',
    `import importlib.util, sys; sys.exit(importlib.util.find_spec('${name}') is None)`,
  ]);
  return status !== 0 && `${python} has no ${name} (pip install ${name})`;
}

/** Two microbatches, a schedule and clipping: what a bundle has to repeat. */
const TRAINING: TrainConfigInput & { readonly steps: number } = {
  batch: 2,
  accumulation: 2,
  steps: 5,
  optimizer: { lr: 0.01, betas: [0.9, 0.95], weightDecay: 0.1 },
  schedule: { kind: 'cosine', warmupSteps: 2, etaMin: 0.001 },
};

/** Strategies and what else changes how a script is written, with the largest difference of losses. */
const TORCHRUN: Readonly<Record<string, readonly [TrainConfigInput, number]>> = {
  'a vocabulary of 61 and beta1 0': [
    {
      model: { ...GPT, vocab: 61 },
      data: 'synthetic',
      optimizer: { lr: 0.01, betas: [0, 0.9], weightDecay: 0 },
    },
    1e-4,
  ],
  DDP: [{ parallel: { strategy: 'NO_SHARD' } }, 1e-4],
  ZeroRedundancyOptimizer: [{ parallel: { strategy: 'ZERO_1' } }, 1e-4],
  'fully_shard, FULL_SHARD': [
    { frozen: ['blocks.0.ln1', 'wpe'], activationCheckpointing: { everyNth: 2 } },
    1e-4,
  ],
  'fully_shard, SHARD_GRAD_OP': [
    { parallel: { strategy: 'SHARD_GRAD_OP', wrap: 'linear' }, activationCheckpointing: 'full' },
    1e-4,
  ],
  'fully_shard, parameters on the host': [{ offload: { parameters: true } }, 1e-4],
  'fully_shard, HYBRID_SHARD': [
    { parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 1 } } },
    1e-4,
  ],
  'tensor parallelism of a GPT': [{ parallel: { tp: 2 } }, 1e-4],
  'tensor parallelism of a Llama': [{ model: LLAMA, parallel: { tp: 2 } }, 1e-4],
  'a Llama with bfloat16': [
    { model: LLAMA, mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } },
    0.03,
  ],
};

let job: Job;
before(async () => {
  if (skip === false) job = await launch({ ranks: 2, blas: 'none' });
});
after(async () => {
  if (skip === false) await job.shutdown();
});

const LOSS = /^step (\d+) loss ([\d.]+)$/gm;

/** Exports a run before its first step, trains it here and there, and returns both runs' losses. */
async function bothLosses(
  folder: string,
  config: TrainConfigInput,
  to: string,
  command: string,
  env: NodeJS.ProcessEnv = {},
): Promise<{ readonly here: readonly number[]; readonly there: readonly number[] }> {
  const run = await job.train({ model: GPT, ...TRAINING, ...config });
  try {
    const out = join(folder, 'bundle');
    await run.export({ to, out });
    await run.step(TRAINING.steps);
    const path = [dirname(python), process.env.PATH].join(delimiter);
    const { stdout } = await promisify(execFile)('bash', ['-c', command], {
      cwd: out,
      env: { ...process.env, PATH: path, OMP_NUM_THREADS: '1', CUDA_VISIBLE_DEVICES: '', ...env },
      maxBuffer: 2 ** 24,
    });
    const there = [...stdout.matchAll(LOSS)].map(([, , loss]) => Number(loss));
    return { here: run.losses, there };
  } finally {
    await run.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

function assertNear({ here, there }: Awaited<ReturnType<typeof bothLosses>>, limit: number): void {
  assert.equal(there.length, TRAINING.steps);
  assert.ok((here[0] ?? 0) - (here.at(-1) ?? 0) > 0.1, `the run learns: ${here.join(' ')}`);
  for (const [i, loss] of here.entries())
    assert.ok(Math.abs(loss - (there[i] ?? 0)) <= limit, `step ${i + 1}: ${loss} here, ${there[i]} there`);
}

for (const [name, [config, limit]] of Object.entries(TORCHRUN)) {
  test(`torchrun trains the bundle with the losses of the run here: ${name}`, { skip }, async (context) => {
    assertNear(await bothLosses(testFolder(context), config, 'torchrun', './launch.sh'), limit);
  });
}

// Accelerate uses FSDP and DeepSpeed on GPUs only: on CPUs it reads the YAML and trains the same model under DDP.
test('accelerate launch trains the bundle on CPUs, under DDP, with the losses of the run here', {
  skip: without('accelerate'),
}, async (context) => {
  const env = { ACCELERATE_USE_CPU: 'true' };
  assertNear(await bothLosses(testFolder(context), {}, 'accelerate', './launch_0.sh', env), 1e-4);
});

test('accelerate launch reads the YAML and the JSON of DeepSpeed, and trains under DDP on CPUs with the losses of the run here', {
  skip: without('accelerate') || without('deepspeed'),
}, async (context) => {
  const env = { ACCELERATE_USE_CPU: 'true', DS_ACCELERATOR: 'cpu' };
  const config: TrainConfigInput = { parallel: { strategy: 'ZERO_2' } };
  assertNear(await bothLosses(testFolder(context), config, 'accelerate', './launch_0.sh', env), 1e-4);
});

for (const strategy of ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'FULL_SHARD'] as const) {
  test(`deepspeed trains the bundle with the losses of the run here: ${strategy}`, {
    skip: without('deepspeed'),
  }, async (context) => {
    const config = {
      parallel: { strategy },
      ...(strategy === 'FULL_SHARD' && { activationCheckpointing: 'full' as const }),
    };
    const env = { DS_ACCELERATOR: 'cpu' };
    assertNear(await bothLosses(testFolder(context), config, 'deepspeed', './launch.sh', env), 1e-4);
  });
}

test('sbatch trains the bundle on a Slurm of one machine, with the losses of the run here', {
  skip,
}, async (context) => {
  const refused = await startSlurm(context);
  if (refused !== undefined) return context.skip(refused);
  const command = 'sbatch --wait job.sbatch; cat train-*.log';
  assertNear(await bothLosses(testFolder(context), {}, 'slurm', command), 1e-4);
});

test('a run that is exported after two steps continues with its own parameters, batches and learning rates', {
  skip,
}, async (context) => {
  const run = await job.train({ model: GPT, ...TRAINING, optimizer: { kind: 'sgd', lr: 0.1 } });
  context.after(() => run.dispose());
  await run.step(2);
  const out = join(testFolder(context), 'bundle');
  await run.export({ to: 'torchrun', out, steps: 3 });
  await run.step(3);
  const { stdout } = await promisify(execFile)('bash', [join(out, 'launch.sh')], {
    env: {
      ...process.env,
      PATH: [dirname(python), process.env.PATH].join(delimiter),
      OMP_NUM_THREADS: '1',
      CUDA_VISIBLE_DEVICES: '',
    },
  });
  const there = [...stdout.matchAll(LOSS)].slice(0, 3);
  assert.deepEqual(
    there.map(([, step]) => step),
    ['3', '4', '5'],
  );
  for (const [i, [, , loss]] of there.entries())
    assert.ok(Math.abs(Number(loss) - (run.losses[i + 2] ?? 0)) < 1e-4, `step ${i + 3}`);
});

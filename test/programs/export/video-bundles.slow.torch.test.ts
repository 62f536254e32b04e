import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { delimiter, dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { launch } from '../../../src/session/run/launch';
import { DIT, T5 } from '../../torch/torch-fixture';
import { testFolder } from './export-fixture';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
const skip = python === '' && 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';

const STEPS = 5;

/** Two experts, a text encoder, clipping and a schedule. */
const VIDEOS: TrainConfigInput = {
  ...{ model: DIT, data: 'moving-shapes', textEncoder: { model: T5 }, batch: 2, seed: 5, steps: STEPS },
  ...{ optimizer: { lr: 3e-3 }, schedule: { kind: 'cosine', warmupSteps: 2 }, clipNorm: 0.5 },
};

const FLOAT32_BOUND = 1e-5;
/** Rounding to 16 bits differs: PyTorch also computes in it, this library rounds at the borders of units. */
const HALF_BOUND = 2e-3;

/** Strategies and what else changes how the script is written, with the largest difference of losses. */
const CASES: Readonly<Record<string, readonly [TrainConfigInput, number]>> = {
  'FULL_SHARD, with a sharded text encoder': [{ textEncoder: { model: T5, fsdp: true } }, FLOAT32_BOUND],
  'SHARD_GRAD_OP, with recompute of every second block and a whole text encoder': [
    {
      parallel: { strategy: 'SHARD_GRAD_OP' },
      activationCheckpointing: { everyNth: 2 },
      textEncoder: { model: T5, fsdp: false },
    },
    FLOAT32_BOUND,
  ],
  'DDP, with two passes': [{ parallel: { strategy: 'NO_SHARD' }, accumulation: 2 }, FLOAT32_BOUND],
  'FULL_SHARD, with two passes and synthetic videos': [{ accumulation: 2, data: 'synthetic' }, FLOAT32_BOUND],
  ZeroRedundancyOptimizer: [{ parallel: { strategy: 'ZERO_1' } }, FLOAT32_BOUND],
  'one expert, without a text encoder, one unit': [
    { model: { ...DIT, experts: 1 }, textEncoder: null, parallel: { wrap: 'root' } },
    FLOAT32_BOUND,
  ],
  'parameters on the host': [{ offload: { parameters: true } }, FLOAT32_BOUND],
  'bfloat16 with reduction in float32': [
    { mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } },
    HALF_BOUND,
  ],
};

for (const ranks of [1, 2] as const) {
  test(`torchrun trains the bundle of a video model on ${ranks} ranks with the losses of the run here`, {
    skip,
  }, async (context) => {
    const job = await launch({ ranks, blas: 'none' });
    context.after(() => job.shutdown());
    for (const [name, [config, bound]] of Object.entries(CASES)) {
      await context.test(name, async (each) => {
        const run = await job.train({ ...VIDEOS, ...config });
        each.after(() => run.dispose());
        const out = join(testFolder(each), 'bundle');
        await run.export({ to: 'torchrun', out });
        await run.step(STEPS);
        const { stdout } = await promisify(execFile)('bash', [join(out, 'launch.sh')], {
          env: {
            ...process.env,
            PATH: [dirname(python), process.env.PATH].join(delimiter),
            ...{ OMP_NUM_THREADS: '1', CUDA_VISIBLE_DEVICES: '' },
          },
          maxBuffer: 2 ** 24,
        });
        const there = [...stdout.matchAll(/^step \d+ loss ([\d.]+)$/gm)].map(([, loss]) => Number(loss));
        assert.equal(there.length, STEPS);
        const differences = run.losses.map((loss, step) => Math.abs(loss - (there[step] ?? 0)));
        each.diagnostic(`largest difference ${Math.max(...differences).toExponential(1)}`);
        assert.ok(Math.max(...differences) <= bound, `${run.losses} here, ${there} there`);
        assert.ok(new Set(run.losses).size === STEPS, 'the run learns');
      });
    }
  });
}

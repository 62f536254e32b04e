import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stageOf } from '../../src/planner/memory/pipeline-stage';
import { memoryPhases, predictMemory } from '../../src/planner/memory/predict-memory';
import { layoutOfLine } from '../support/batch-lines';
import { CachingAllocator } from '../support/caching-allocator';
import { replayLlamaStep } from '../support/llama-step-trace';

const GIB = 1024 ** 3;

/** Model, GPUs, tp, sequences per rank. */
const CASES = [
  ['llama3-8b', 8, 1, 1],
  ['llama3-8b', 8, 1, 2],
  ['llama3-8b', 32, 4, 4],
  ['llama3-70b', 64, 1, 1],
  ['llama3-70b', 256, 8, 8],
  ['llama3-70b', 256, 8, 16],
  ['llama3-405b', 128, 8, 2],
] as const;

/** Name, whether blocks are compiled, whether the loss is. */
const COMPILED = [
  ['op by op', false, false],
  ['compiled', true, true],
  ['compiled blocks, loss op by op', true, false],
] as const;

/** A replay knows no capacity. */
const ROOMY = { like: 'H100-80G', memoryGB: 2000 };

const CUBLAS_BYTES = 2 * 32 * 1024 ** 2;

test('free memory of a stream is used by that stream alone, and free neighbours are joined', () => {
  const memory = new CachingAllocator();
  const [a, b] = [memory.allocate(30e6), memory.allocate(30e6)];
  memory.release(a);
  memory.release(b);
  const { reservedBytes } = memory;
  memory.allocate(59e6);
  assert.equal(memory.reservedBytes, reservedBytes);
  memory.allocate(30e6, 1);
  assert.ok(memory.reservedBytes > reservedBytes);
});

for (const recompute of ['none', 'selective', 'full']) {
  for (const [name, compile, compileLoss] of COMPILED) {
    test(`the formulas are close to a replay of a step: ${recompute}, ${name}`, (t) => {
      for (const [model, gpus, tp, micro] of CASES) {
        const parallel = { tp, strategy: 'FULL_SHARD', stack: 'fsdp2' };
        const request = { model, hardware: ROOMY, gpus, parallel, batch: { micro }, recompute };
        const layout = layoutOfLine({
          ...request,
          ...{ compile, compileLoss, precision: 'bf16', attention: 'flash' },
        });
        const replay = replayLlamaStep(layout);
        const { peakBytes, phase } = predictMemory(layout);
        const allocated = Math.max(
          ...memoryPhases(layout, stageOf(layout, 0)).map(
            (each) =>
              each.params +
              each.grads +
              each.optimizer +
              each.activations +
              each.temporary -
              each.holes -
              each.cached,
          ),
        );
        const errors: readonly [number, number] = [
          allocated / (replay.allocatedBytes + CUBLAS_BYTES) - 1,
          peakBytes / (replay.reservedBytes + CUBLAS_BYTES) - 1,
        ];
        t.diagnostic(
          `${model} x ${gpus}, tp ${tp}, micro ${micro}: allocated ${(replay.allocatedBytes / GIB).toFixed(1)} GiB, ` +
            `reserved ${(replay.reservedBytes / GIB).toFixed(1)} GiB; formulas ` +
            `${errors.map((error) => `${(100 * error).toFixed(1)}%`).join(', ')} (${phase})`,
        );
        assert.ok(Math.abs(errors[0]) < 0.04, 'allocated within 4%');
        assert.ok(Math.abs(errors[1]) < 0.08, 'reserved within 8%');
      }
    });
  }
}

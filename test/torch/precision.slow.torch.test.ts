import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { TORCH_FRAMEWORKS, type TorchFramework } from '../../src/launch/control/torch-messages';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import type { Run } from '../../src/session/run/run';
import { OVERFLOWING } from './losses/precision-cases';
import { GPT, lacksDeepSpeed, largestDifference } from './torch-fixture';

const BASE = { model: GPT, batch: 2, optimizer: { lr: 3e-3 }, seed: 5 } as const;

describe('types and offload on PyTorch', () => {
  const jobs: Job[] = [];
  before(async () => {
    jobs.push(await launch({ ranks: 2 }), await launch({ engine: 'torch', ranks: 2 }));
  });
  after(() => Promise.all(jobs.map((job) => job.shutdown())));

  /** Trains some steps, here or on PyTorch if there is a framework, and frees the run. */
  async function train(config: TrainConfigInput, steps: number, framework?: TorchFramework): Promise<Run> {
    const job = jobs[framework === undefined ? 0 : 1];
    const run = await job?.train(config, framework === undefined ? {} : { framework });
    assert.ok(run !== undefined);
    await run.step(steps);
    return run;
  }

  for (const framework of TORCH_FRAMEWORKS) {
    const skip = framework === 'deepspeed' && lacksDeepSpeed();
    it(`gradients are sent in communicationDataType under ${framework}`, { skip }, async () => {
      for (const strategy of ['FULL_SHARD', framework === 'deepspeed' ? 'ZERO_1' : 'NO_SHARD'] as const) {
        const parallel = { strategy, communicationDataType: 'bf16' } as const;
        const run = await train({ ...BASE, parallel }, 1, framework);
        const sent = run.records.newest().flatMap(({ collectives }) => collectives);
        const types = new Set(sent.filter(({ cause }) => cause === 'grad').map(({ wireDType }) => wireDType));
        assert.deepEqual([...types], ['bfloat16'], strategy);
        await run.dispose();
      }
    });

    it(`offload on CPUs moves nothing, says so once, and changes no loss under ${framework}`, {
      skip,
    }, async (context) => {
      const written: string[] = [];
      const mocked = context.mock.method(
        process.stderr,
        'write',
        (text: string) => written.push(String(text)) > 0,
      );
      const offload = { optimizer: true, parameters: true, activations: true };
      const [plain, run] = [await train(BASE, 3, framework), await train({ ...BASE, offload }, 3, framework)];
      const here = await train({ ...BASE, offload }, 3);
      mocked.mock.restore();
      assert.deepEqual(run.losses, plain.losses);
      assert.ok(largestDifference(run.losses, here.losses) < 1e-4, `${run.losses}, ${here.losses}`);
      const notes = written.join('').match(/nothing moves, because these ranks compute on CPUs/g);
      assert.equal(notes?.length, 1, written.join(''));
      for (const each of [plain, run, here]) await each.dispose();
    });
  }

  it('a scaler and its schedule continue from checkpoints of each other, after skipped steps', async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-scaler-'));
    context.after(() => rmSync(folder, { recursive: true, force: true }));
    const config: TrainConfigInput = {
      ...{ ...BASE, mixedPrecision: 'fp16', gradScaler: OVERFLOWING },
      schedule: { kind: 'cosine', warmupSteps: 2, maxSteps: 12 },
    };
    const whole = await train(config, 12);
    const first = await train(config, 7, 'fsdp2');
    await first.save(join(folder, 'torch'));
    // A rate that is set by hand counts from the updates so far, not from the steps.
    const [set, expected] = [await train(config, 7), await train(config, 7, 'fsdp1')];
    for (const run of [set, expected]) {
      run.lr = 1e-3;
      await run.step(3);
    }
    assert.deepEqual(factsOf(set, 7), factsOf(expected, 7));
    for (const framework of [undefined, 'fsdp2', 'fsdp1'] as const) {
      const run = await train(config, 1, framework);
      await run.load(join(folder, 'torch'));
      await run.step(5);
      assert.deepEqual(factsOf(run, 7), factsOf(whole, 7), framework);
      assert.ok(largestDifference(run.losses.slice(-5), whole.losses.slice(-5)) < 2e-3, `${run.losses}`);
      await run.dispose();
    }
    for (const run of [whole, first, set, expected]) await run.dispose();
  });

  it('runs of 16 bits on DeepSpeed survive failed work, and give checkpoints to FSDP2', {
    skip: lacksDeepSpeed(),
  }, async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-half-'));
    context.after(() => rmSync(folder, { recursive: true, force: true }));
    for (const [strategy, mixedPrecision] of [
      ['ZERO_1', 'bf16'],
      ['ZERO_2', 'fp16'],
      ['FULL_SHARD', 'bf16'],
    ] as const) {
      const config: TrainConfigInput = { ...BASE, mixedPrecision, parallel: { strategy } };
      const [here, run] = [await train(config, 9), await train(config, 3, 'deepspeed')];
      await assert.rejects(async () => jobs[1]?.on(0).python('1 / 0'), /ZeroDivisionError/);
      await run.step(3);
      const saved = join(folder, strategy);
      await run.save(saved);
      const [back, other] = [
        await train(config, 1, 'deepspeed'),
        await train({ ...BASE, mixedPrecision }, 1, 'fsdp2'),
      ];
      for (const each of [run, back, other]) {
        if (each !== run) await each.load(saved);
        await each.step(3);
        const losses = each.losses.slice(-3);
        const difference = largestDifference(losses, here.losses.slice(-3));
        assert.ok(difference < 2e-2, `${strategy}: ${losses}; ${here.losses}`);
      }
      for (const each of [here, run, back, other]) await each.dispose();
    }
  });

  it('gradients of FSDP1 have 16 bits until the update, if they are kept', async () => {
    for (const [keepLowPrecisionGrads, dtype] of [
      [false, 'torch.float32'],
      [true, 'torch.bfloat16'],
    ] as const) {
      const run = await train(
        { ...BASE, mixedPrecision: { paramDtype: 'bf16', keepLowPrecisionGrads } },
        1,
        'fsdp1',
      );
      const [types] =
        (await jobs[1]?.on(0).python(
          `handles = [unit._handle for unit in runs[max(runs)].model.modules() if hasattr(unit, '_handle')]
sorted({str(handle.flat_param.grad.dtype) for handle in handles})`,
        )) ?? [];
      assert.deepEqual(types, [dtype]);
      await run.dispose();
    }
  });
});

/** Returns which of the steps after the first ones were skipped, and the learning rates of all of them. */
function factsOf(run: Run, after: number) {
  return run.results
    .filter(({ step }) => step > after)
    .map(({ step, skipped, lr }) => ({ step, skipped, lr }));
}

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import type { Tensor } from '@tensorflow/tfjs';
import { PIPELINE_SCHEDULES } from '../../src/config/settings/pipeline';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { StepRecord } from '../../src/ledger/record';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { shareJob } from '../session/job-fixture';
import type { OwnScope } from '../session/run/own-values';
import { casesHere, HAS_ALL_CASES, valuesHere } from '../support/cases';
import { assertClose, assertSame, CONFIG, GPT, LLAMA, steps } from './same-training';

type Scope = Omit<OwnScope, 'values'>;

const shared = shareJob({ ranks: 4 });

test('job.train with parallel.pp', async (context) => {
  const job = shared();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-pp-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));

  await context.test('has the losses and parameters of the data-parallel ranks without it', async () => {
    const settings: Readonly<Record<string, TrainConfigInput>> = {
      'FULL_SHARD, 1F1B, cut by time': { parallel: { stageSplit: 'time' } },
      'ZERO_2, GPipe, accumulation, frozen': {
        parallel: { strategy: 'ZERO_2', schedule: 'gpipe', microbatches: 2 },
        accumulation: 2,
        frozen: ['blocks.0', 'blocks.4.fc1'],
      },
      'NO_SHARD, zero bubble, comm hook, recomputed, accumulation': {
        // A ratio of 1 sends everything, but through the hook.
        parallel: { strategy: 'NO_SHARD', schedule: 'zb', commHook: { kind: 'topK', ratio: 1 } },
        activationCheckpointing: 'full',
        accumulation: 2,
      },
      'ZERO_1, interleaved, groups': {
        parallel: { strategy: 'ZERO_1', schedule: 'interleaved' },
        optimizer: { eps: 1e-3, groups: [{ modules: ['blocks.0'], lr: 1e-4 }] },
      },
      'SHARD_GRAD_OP, llama': { model: LLAMA, parallel: { strategy: 'SHARD_GRAD_OP' } },
      'HYBRID_SHARD, interleaved': {
        parallel: {
          strategy: 'HYBRID_SHARD',
          mesh: { dpReplicate: 2, dpShard: 1 },
          schedule: 'interleaved',
          wrap: { modules: ['blocks.4', 'blocks.1'] },
        },
      },
      'FULL_SHARD, offloaded': { offload: { parameters: true } },
    };
    const here = casesHere(settings, ['ZERO_2, GPipe, accumulation, frozen', 'HYBRID_SHARD, interleaved']);
    for (const [name, setting] of Object.entries(here)) {
      const config = { ...CONFIG, ...setting };
      await assertSame(name, job, { ...config, parallel: { ...config.parallel, pp: 2 } }, { ranks: 2 });
    }
  });

  await context.test('divides matrices and sequences of the stages', async () => {
    for (const model of valuesHere([GPT, LLAMA], [1])) {
      const tp = { pp: 2, tp: 2, sequenceParallel: true } as const;
      await assertSame('tp', job, { ...CONFIG, model, parallel: tp }, { ranks: 1 });
      const cp = { pp: 2, cp: 2, cpKind: 'ring', strategy: 'ZERO_2' } as const;
      await assertSame('cp', job, { ...CONFIG, model, parallel: cp }, { ranks: 1 });
    }
    if (!HAS_ALL_CASES) return;
    const both = { pp: 2, tp: 2, strategy: 'NO_SHARD' } as const;
    await assertSame('tp', job, { ...CONFIG, parallel: both }, { ranks: 1 });
  });

  await context.test(
    'saves what any layout loads, moves to other degrees, evaluates and samples',
    async () => {
      const tokens = Uint16Array.from({ length: 200 }, (_, i) => (i * i) % 61);
      const config: TrainConfigInput = { ...CONFIG, data: { tokens, validation: 0.3 } };
      const plain = await job.train(config, { ranks: 2 });
      const staged = await job.train({ ...config, parallel: { pp: 2, schedule: 'interleaved' } });
      assertClose('before', await steps(staged), await steps(plain));
      assert.match(inspect(staged), /^FULL_SHARD × PP 2 \(interleaved, 2 stages per rank\) on 4 ranks/);
      const [evaluated, expectedLoss] = [await staged.evaluate(), await plain.evaluate()];
      assertClose('validation', [evaluated.loss, evaluated.rows], [expectedLoss.loss, expectedLoss.rows]);
      const metrics = { one: () => 1 };
      await assert.rejects(staged.evaluate({ metrics }), {
        code: 'CONFIG',
        message: /parallel\.pp 2.*reshard/,
      });
      const greedy = { tokens: 4, temperature: 0 };
      assert.deepEqual(await staged.sample([1, 2, 3], greedy), await plain.sample([1, 2, 3], greedy));
      await staged.save(join(folder, 'staged'));
      await plain.save(join(folder, 'plain'));
      const [fromStaged, fromPlain] = [
        await job.train(config, { ranks: 2 }),
        await job.train({
          ...config,
          parallel: { strategy: 'ZERO_1', tp: 2, pp: 2, sequenceParallel: true },
        }),
      ];
      await fromStaged.load(join(folder, 'staged'));
      await fromPlain.load(join(folder, 'plain'));
      const expected = await steps(plain);
      assertClose('saved by stages, loaded without', await steps(fromStaged), expected);
      assert.match(String(await staged.reshard({ tp: 2, pp: 2, schedule: '1f1b' })), /PP 2.*all bit-equal/);
      assert.match(String(await staged.reshard({ tp: 1, pp: 1, world: 2 })), /all bit-equal/);
      assert.match(String(await staged.reshard({ pp: 2, world: 4, strategy: 'ZERO_2' })), /all bit-equal/);
      assertClose('moved', await steps(staged), expected);
      for (const run of [plain, staged, fromStaged, fromPlain]) await run.dispose();
    },
  );

  await context.test('trains a chain of modules of the own, with data by data-parallel rank', async () => {
    const config = {
      model: ({ nn }: Scope) => {
        const layers = [
          new nn.Linear(3, 8),
          new nn.ReLU(),
          new nn.Linear(8, 8),
          new nn.ReLU(),
          new nn.Linear(8, 1),
        ];
        return new nn.Sequential(layers);
      },
      data: ({ tf, rank, worldSize }: Scope, index: number) => {
        const first = 12 * (index * worldSize + rank);
        const x = tf.reshape(tf.sin(tf.range(first, first + 12)), [4, 3]);
        return { x, y: tf.sum(x, 1, true) };
      },
      loss: (output: Tensor, { y }: { y: Tensor }, { tf }: Scope) => tf.losses.meanSquaredError(y, output),
    } as const;
    const plain = await job.train(config, { ranks: 2 });
    const staged = await job.train({ ...config, parallel: { pp: 2, stageSplit: ['3'] } });
    assertClose('own', await steps(staged), await steps(plain));
    await plain.dispose();
    await staged.dispose();
  });

  await context.test('has the peaks and bytes of a dry run, and draws its schedule', async () => {
    const divided: Readonly<Record<string, TrainConfigInput['parallel']>> = {
      gpipe: { tp: 2, sequenceParallel: true },
      zb: { cp: 2, cpKind: 'ring', strategy: 'ZERO_2' },
    };
    for (const schedule of valuesHere(PIPELINE_SCHEDULES, [3])) {
      const config = { ...CONFIG, parallel: { ...divided[schedule], pp: 2, schedule } };
      const run = await job.train(config);
      await run.step(2);
      const planned = dryRun(config, { world: 4, ranks: 'all', blas: false });
      const records = run.records.ofStep(2);
      const peaks = (ofStep: readonly StepRecord[]): number[] => ofStep.map(({ memory }) => memory.peakBytes);
      const sent = (ofStep: readonly StepRecord[]) =>
        ofStep.map(({ collectives }) =>
          collectives.map(({ op, cause, wireBytes }) => `${op} ${cause} ${wireBytes}`).sort(),
        );
      assert.deepEqual(peaks(planned.lastStep), peaks(records), schedule);
      assert.deepEqual(sent(planned.lastStep), sent(records), schedule);
      assert.match(run.timeline({ as: 'pipeline' }).title, /4 microbatches on 2 (× 2 )?stages/);
      run.memory();
      run.comm();
      const modules = (await run.units()).rows.map(({ module }) => module);
      for (const block of ['blocks.0', 'blocks.4']) assert.ok(modules.includes(block), `${modules}`);
      await run.dispose();
    }
  });

  await context.test('refuses what it cannot cut, with the reason', async () => {
    const refused = async (config: TrainConfigInput, code: string, message: RegExp): Promise<void> => {
      await assert.rejects(job.train({ ...CONFIG, ...config }), { code, message });
    };
    await refused({ parallel: { pp: 3 } }, 'MESH', /pp\(3\).*4 ranks/s);
    await refused(
      { parallel: { pp: 2, microbatches: 3 } },
      'CONFIG',
      /microbatches.*does not divide batch 4/s,
    );
    // Blocks of 8-bit states would mix the copies of the tied embedding with the stages' other parameters.
    await refused(
      { model: { ...GPT, vocab: 509 }, parallel: { pp: 2 }, optimizer: { kind: 'adamW8bit' } },
      'CONFIG',
      /other stages have a copy of wte\.weight.*NO_SHARD.*tied: false/,
    );
    await refused({ parallel: { pp: 8 } }, 'CONFIG', /5 layers cannot be divided into 8 stages/);
  });
});

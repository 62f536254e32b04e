import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Run } from '../../../src/session/run/run';
import { shareJob, temporaryFolder } from '../../session/job-fixture';
import { casesHere, HAS_ALL_CASES, valuesHere } from '../../support/cases';
import { assertClose } from '../../support/close';

const shared = shareJob({ ranks: 4 });

const STEPS = HAS_ALL_CASES ? 3 : 2;
const WITHIN = 2e-5;
const LAYER = 'blocks.0.moe';

/** A model whose routers prefer the first experts: the bias is added to probabilities near 1/8, which differ by about 0.01. */
function skewed({ nn, tf }: RankScope): object {
  const sizes = { layers: 2, dim: 16, heads: 2, vocab: 48, seq: 8, experts: 8 };
  const model = nn.moe({ ...sizes, router: 'topk', biasUpdateRate: 1e-9 });
  const bias = [0.03, 0.02, 0.012, 0.008, 0.004, 0, 0, 0];
  for (const { moe } of model.blocks) moe.expertBias?.update(() => tf.tensor1d(bias));
  return model;
}

function tokens({ tf, rank }: RankScope, index: number) {
  const start = index * 7919 + rank * 104729;
  const rows = Array.from({ length: 72 }, (_, i) => (start + i * i * 31) % 48);
  const ids = rows.filter((_, i) => i % 9 !== 8);
  const targets = rows.filter((_, i) => i % 9 !== 0);
  return { inputs: [tf.tensor(ids, [8, 8], 'int32'), tf.tensor(targets, [64], 'int32')] };
}

const SKEWED = { model: skewed, data: tokens };

const MOE = { kind: 'moe', layers: 2, dim: 12, heads: 2, vocab: 61, seq: 8, experts: 4 } as const;
const CONFIG: TrainConfigInput = {
  model: { ...MOE, router: 'topk' },
  data: { tokens: Uint16Array.from({ length: 300 }, (_, i) => (i * i) % 61) },
  batch: 2,
  clipNorm: 0.5,
};
const COPIED = {
  experts: [
    [3, 0],
    [1, 2],
  ],
  copies: [
    [2, 1],
    [3, 0],
  ],
};

/** The whole tensors of a run, in files. */
async function wholeState(run: Run, folder: string): Promise<Map<string, Buffer>> {
  await run.save(folder, { type: 'FULL_STATE_DICT' });
  const names = readdirSync(folder).filter((name) => name.endsWith('.safetensors'));
  const files = new Map(names.map((name) => [name, readFileSync(join(folder, name))]));
  rmSync(folder, { recursive: true });
  return files;
}

/** The rows of the busiest rank in the last step, as a multiple of the mean; the largest of both layers. */
function busiest(run: Run): number {
  const layers = Object.values(run.results.at(-1)?.rankRows ?? {});
  return Math.max(
    ...layers.map((ranks) => {
      const rows = ranks.map((each) => each.rows);
      return (Math.max(...rows) * rows.length) / rows.reduce((sum, each) => sum + each, 0);
    }),
  );
}

test("the largest rank's load falls when experts are moved, and again when they are copied", async (context) => {
  const { path } = temporaryFolder(context);
  const job = shared();
  for (const strategy of valuesHere(['NO_SHARD', 'FULL_SHARD'] as const, [1])) {
    await context.test(strategy, async (t) => {
      const plain = await job.train({ ...SKEWED, parallel: { strategy } });
      const run = await job.train({ ...SKEWED, parallel: { strategy, ep: 4 } });
      await plain.step(3 * STEPS);
      await run.step(STEPS);
      const loads = [busiest(run)];
      for (const change of [
        { expertPlacement: 'by-use' },
        { expertPlacement: 'by-use', redundantExperts: 4 },
      ] as const) {
        const before = await wholeState(run, join(path, 'before'));
        const report = await run.reshard(change);
        const after = await wholeState(run, join(path, 'after'));
        assert.ok(before.size >= 2);
        for (const [name, bytes] of after) assert.ok(before.get(name)?.equals(bytes), name);
        if (loads.length === 1) assert.ok(report.movedBytes > 0);
        await run.step(STEPS);
        loads.push(busiest(run));
      }
      const [consecutive = 0, moved = 0, copied = 0] = loads;
      t.diagnostic(`busiest rank: ${loads.map((load) => load.toFixed(2)).join(', ')} times the mean`);
      assert.ok(consecutive > 1.5 && moved < consecutive - 0.3 && copied < moved - 0.05, String(loads));
      assertClose(run.losses, plain.losses, WITHIN, 'losses');
      assert.deepEqual(
        run.results.map(({ experts }) => experts),
        plain.results.map(({ experts }) => experts),
      );
      assert.match(inspect(run), /EP 4 \(experts moved, 4 copies per layer\) on 4 ranks/);
      const figure = run.experts({ by: 'rank', layer: LAYER });
      const busy = new RegExp(
        `busiest rank: \\d\\.\\d\\d in step 1, \\d\\.\\d\\d in(?: |<br>)step ${3 * STEPS}`,
      );
      assert.match(figure.subtitle ?? '', busy);
      assert.equal(figure.table.rows.length, 2 * 4 * 3 * STEPS);
      // A checkpoint has whole experts, so a run without expert parallelism loads it.
      await run.save(join(path, strategy));
      const loaded = await job.train({ ...SKEWED, parallel: { strategy: 'ZERO_1' } });
      await loaded.load(join(path, strategy));
      await Promise.all([loaded.step(1), plain.step(1)]);
      assertClose(loaded.losses, plain.losses.slice(-1), WITHIN, 'loaded');
      assert.match(
        String(await run.reshard({ ep: 2, strategy: 'ZERO_2' })),
        /EP 2 on 4 ranks.*all bit-equal/,
      );
      await run.step(1);
      assertClose(run.losses.slice(-1), plain.losses.slice(-1), WITHIN, 'consecutive again');
      for (const each of [plain, run, loaded]) await each.dispose();
    });
  }
});

test('moved and copied experts have the losses of whole ones', async (context) => {
  const job = shared();
  const settings: Readonly<Record<string, TrainConfigInput>> = {
    'tensors, sequences and experts divided': {
      model: { ...MOE, router: 'topk', auxLossWeight: 0.1, biasUpdateRate: 0.1 },
      parallel: { tp: 2, sequenceParallel: true, cp: 2, cpKind: 'ring', ep: 2 },
    },
    'two stages, interleaved microbatches': {
      parallel: { pp: 2, microbatches: 2, ep: 2, strategy: 'ZERO_1' },
    },
    'adapters, bfloat16, accumulation': {
      lora: { r: 2, targets: ['fc1', 'fc2'] },
      mixedPrecision: 'bf16',
      accumulation: 2,
      parallel: { ep: 2, strategy: 'ZERO_2' },
    },
    'everything offloaded, recomputed': {
      activationCheckpointing: 'full',
      offload: { optimizer: true, parameters: true, activations: true },
      parallel: { ep: 2 },
    },
  };
  const here = casesHere(settings, [
    'tensors, sequences and experts divided',
    'two stages, interleaved microbatches',
  ]);
  for (const [name, setting] of Object.entries(here)) {
    await context.test(name, async () => {
      const { ep, ...parallel } = setting.parallel ?? {};
      const plain = await job.train({ ...CONFIG, ...setting, parallel });
      const expertPlacement = { 'blocks.0.moe': COPIED, 'blocks.1.moe': COPIED };
      const run = await job.train({ ...CONFIG, ...setting, parallel: { ...parallel, ep, expertPlacement } });
      await plain.step(STEPS);
      await run.step(STEPS);
      // bf16 rounds sums that were added in another order.
      const within = setting.mixedPrecision === undefined ? WITHIN : 1e-3;
      assertClose(run.losses, plain.losses, within, 'losses');
      for (const each of [plain, run]) await each.dispose();
    });
  }
});

test('a loop of a cell moves its experts between two steps', async () => {
  const job = shared();
  const results = await job
    .on('all')
    .run(({ nn, tf, optim, DDP, gradients, rank, dist, initializeModelParallel, ...scope }) => {
      const { applyExpertParallel, balanceExperts, placeExperts, moveState } = scope;
      const parallel = initializeModelParallel({ expertModelParallelSize: 2 });
      const sizes = { layers: 2, dim: 8, heads: 2, vocab: 29, seq: 6, experts: 4, seed: 4 };
      const build = () => nn.moe({ ...sizes, router: 'topk' });
      const step = (net: { model: object; optimizer: { step(): void; zeroGrad(): void } }, at: number) => {
        const model = net.model as ReturnType<typeof build>;
        const all = Array.from({ length: 14 }, (_, i) => (at * 31 + rank * 17 + i * i) % 29);
        const ids = tf.tensor2d(
          all.filter((_, i) => i % 7 !== 6),
          [2, 6],
          'int32',
        );
        const targets = tf.tensor1d(
          all.filter((_, i) => i % 7 !== 0),
          'int32',
        );
        const pass = gradients(() => model.apply(ids, targets));
        pass.backward();
        net.optimizer.step();
        net.optimizer.zeroGrad();
        const loss = dist.allReduce(tf.tensor1d([pass.loss.dataSync()[0] ?? Number.NaN]), 'avg');
        return loss.dataSync()[0] ?? Number.NaN;
      };
      const make = (model: ReturnType<typeof build>) => {
        const whole = DDP(model);
        return { model, whole, optimizer: optim.adamW(whole, { lr: 1e-2 }) };
      };
      const plain = make(build());
      const first = make(applyExpertParallel(build(), parallel));
      const losses = { plain: [step(plain, 0), step(plain, 1)], moved: [step(first, 0), step(first, 1)] };
      const loads = balanceExperts(first.model, parallel.dpCp);
      const placement = placeExperts(loads, parallel, { redundantExperts: 2 });
      const next = make(applyExpertParallel(build(), parallel, { placement }));
      const { comparedBytes } = moveState(first, next);
      for (const at of [2, 3]) {
        losses.plain.push(step(plain, at));
        losses.moved.push(step(next, at));
      }
      let refusal = '';
      try {
        moveState(next, next);
      } catch (error) {
        refusal = String(error);
      }
      return { losses, placement, comparedBytes, refusal };
    });
  for (const { losses, placement, comparedBytes, refusal } of results) {
    assertClose(losses.moved, losses.plain, WITHIN, 'losses');
    assert.deepEqual(placement, results[0]?.placement);
    assert.equal(placement[LAYER]?.copies.flat().length, 2);
    assert.ok(comparedBytes > 0);
    assert.match(refusal, /both are the same model/);
  }
});

test('what cannot be placed is refused, and the run does not change', async () => {
  const job = shared();
  const run = await job.train({ ...CONFIG, parallel: { ep: 2, wrap: 'moe' } }, { ranks: 2 });
  await assert.rejects(run.reshard({ expertPlacement: 'by-use' }), { message: /this run has none yet/ });
  await run.step(1);
  await assert.rejects(run.reshard({ redundantExperts: 2 }), { message: /needs expertPlacement: 'by-use'/ });
  await assert.rejects(run.reshard({ expertPlacement: 'by-use', redundantExperts: 1 }), {
    message: /must be a multiple of 2,/,
  });
  await assert.rejects(run.reshard({ expertPlacement: 'by-use', redundantExperts: 2 }), {
    message: /would be a unit within "blocks\.\d\.moe\.experts", whose experts have copies/,
  });
  await assert.rejects(run.reshard({ ep: 1, expertPlacement: 'by-use' }), { message: /parallel\.ep is 1/ });
  await assert.rejects(run.reshard({ expertPlacement: { 'blocks.0.mo': COPIED } }), {
    message: /no layer 'blocks.0.mo' with experts; did you mean 'blocks.0.moe'/,
  });
  await run.step(1);
  assert.match(String(await run.reshard({ expertPlacement: 'by-use' })), /EP 2 \(experts moved\)/);
  await run.step(1);
  assert.equal(run.losses.length, 3);
});

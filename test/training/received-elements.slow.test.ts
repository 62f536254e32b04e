import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { CollectiveRecord, StepRecord } from '../../src/ledger/record';
import type { Job } from '../../src/session/run/job';
import { shareJob } from '../session/job-fixture';
import { casesHere, HAS_ALL_CASES, valuesHere } from '../support/cases';

// What docs/explanation/model-parallelism.md states in elements, b sequences of s tokens, width h, P ranks.

const WORLD = 4;
const STEPS = HAS_ALL_CASES ? 2 : 1;
const MODEL = { kind: 'gpt', layers: 4, dim: 24, heads: 4, vocab: 61, seq: 8 } as const;
const CONFIG: TrainConfigInput = { model: MODEL, data: 'synthetic', batch: 4 };
const [LAYERS, H, BS] = [MODEL.layers, MODEL.dim, 4 * MODEL.seq];
const BSH = BS * H;

type Parallel = NonNullable<TrainConfigInput['parallel']>;
type Check = (activations: readonly CollectiveRecord[], record: StepRecord) => void;

/** Trains some steps and checks what each rank received for activations in each step. */
async function checkRun(job: Job, config: TrainConfigInput, check: Check): Promise<void> {
  const run = await job.train({ ...CONFIG, ...config });
  await run.step(STEPS);
  const records = [...run.records];
  assert.equal(records.length, STEPS * WORLD);
  for (const record of records)
    check(
      record.collectives.filter(({ cause }) => cause === 'activation'),
      record,
    );
  await run.dispose();
}

/** Elements that were received for a module and the modules inside it. */
function elementsOf(activations: readonly CollectiveRecord[], module: string): number {
  const own = activations.filter(({ module: name }) => `${name}.`.startsWith(`${module}.`));
  return own.reduce((sum, { wireBytes }) => sum + wireBytes / 4, 0);
}

const LAYER_NAMES = Array.from({ length: LAYERS }, (_, layer) => `blocks.${layer}`);

const shared = shareJob({ ranks: 4 });

test('ranks of job.train receive the stated elements per rank, layer and step', async (context) => {
  const job = shared();
  await testTensors(context, job);
  await testSequences(context, job);
  await testStages(context, job);
});

async function testTensors(context: TestContext, job: Job): Promise<void> {
  for (const [title, activationCheckpointing, times] of [
    ['8bsh(t - 1)/t', null, 8],
    ['with full recompute 12bsh(t - 1)/t', 'full', 12],
  ] as const) {
    await context.test(`tensor parallelism: ${title}`, async () => {
      const layouts = [
        [2, 'NO_SHARD'],
        [2, 'FULL_SHARD'],
        [4, 'ZERO_1'],
      ] as const;
      for (const [tp, strategy] of valuesHere(layouts, activationCheckpointing === null ? [1] : [2])) {
        const part = (tp - 1) / tp;
        await checkRun(job, { parallel: { tp, strategy }, activationCheckpointing }, (activations) => {
          for (const layer of LAYER_NAMES)
            assert.equal(elementsOf(activations, layer), times * BSH * part, layer);
          const ends = ['wte', 'ln_f', 'lm_head'].map((name) => elementsOf(activations, name));
          assert.deepEqual(ends, [2 * BSH * part, 2 * BSH * part, 6 * BS * part]);
          assert.equal(elementsOf(activations, 'wpe'), 0);
        });
      }
    });

    await context.test(`and sequence parallelism: ${title}, and 12h(t - 1)/t of gradients`, async () => {
      const parallel = { tp: 4, sequenceParallel: true, strategy: 'NO_SHARD' } as const;
      await checkRun(job, { parallel, activationCheckpointing }, (activations) => {
        for (const layer of LAYER_NAMES) {
          const more = layer === 'blocks.0' ? BSH : 0;
          assert.equal(elementsOf(activations, layer), ((times * BSH + 12 * H + more) * 3) / 4, layer);
        }
        const ends = ['wte', 'ln_f', 'lm_head'].map((name) => elementsOf(activations, name));
        assert.deepEqual(
          ends,
          [2 * BSH, 2 * BSH + 4 * H, 6 * BS].map((elements) => (elements * 3) / 4),
        );
      });
    });
  }
}

async function testSequences(context: TestContext, job: Job): Promise<void> {
  const recomputes = [
    [null, 1],
    ['full', 2],
  ] as const;
  for (const [activationCheckpointing, forwards] of recomputes) {
    const times = forwards === 1 ? '' : ', and the four of forward again with full recompute';
    await context.test(`Ulysses: 8 all-to-alls of bsh(P - 1)/P²${times}`, async () => {
      for (const cp of valuesHere([2, 4], [forwards - 1])) {
        await checkRun(
          job,
          { parallel: { cp, cpKind: 'ulysses' }, activationCheckpointing },
          (activations) => {
            const expected = new Array(4 * (forwards + 1)).fill(`allToAll ${(BSH * (cp - 1)) / cp ** 2}`);
            for (const layer of LAYER_NAMES) {
              const own = activations.filter(({ module }) => module === `${layer}.attention`);
              assert.deepEqual(
                own.map(({ op, wireBytes }) => `${op} ${wireBytes / 4}`),
                expected,
                layer,
              );
            }
            assert.equal(activations.length, LAYERS * expected.length);
          },
        );
      }
    });
  }

  await context.test('a ring: 2bsh(P - 1)/P in forward and 4bsh(P - 1)/P in backward', async () => {
    for (const [activationCheckpointing, forwards] of recomputes) {
      for (const cp of valuesHere([2, 4], [2 - forwards])) {
        const once = (2 * BSH * (cp - 1)) / cp;
        await checkRun(
          job,
          { parallel: { cp, cpKind: 'ring' }, activationCheckpointing },
          (all, { spans }) => {
            const begun = Math.min(
              ...spans.flatMap(({ name, start }) => (name === 'backward' ? [start] : [])),
            );
            const received = all.filter(({ op }) => op === 'recv');
            const halves = [
              received.filter(({ posted }) => posted < begun),
              received.filter(({ posted }) => posted >= begun),
            ];
            for (const layer of LAYER_NAMES)
              assert.deepEqual(
                halves.map((half) => elementsOf(half, `${layer}.attention`)),
                [once, (forwards - 1) * once + 2 * once],
                layer,
              );
          },
        );
      }
    }
  });
}

async function testStages(context: TestContext, job: Job): Promise<void> {
  const settings: Readonly<
    Record<string, Parallel & { readonly pp: number; readonly microbatches: number }>
  > = {
    '1F1B': { pp: 2, microbatches: 4 },
    'GPipe, ZERO_2': { pp: 2, schedule: 'gpipe', microbatches: 2, strategy: 'ZERO_2' },
    'zero bubble on 4 ranks': { pp: 4, schedule: 'zb', microbatches: 4 },
    'interleaved, with PV - 1 = 3 boundaries': { pp: 2, schedule: 'interleaved', microbatches: 4 },
    'of parts of sequences, with tp': { pp: 2, microbatches: 4, tp: 2, sequenceParallel: true },
    'of parts of sequences, with cp': { pp: 2, microbatches: 4, cp: 2 },
  };
  const here = casesHere(settings, [
    '1F1B',
    'zero bubble on 4 ranks',
    'interleaved, with PV - 1 = 3 boundaries',
    'of parts of sequences, with tp',
  ]);
  for (const [name, parallel] of Object.entries(here)) {
    await context.test(`stages: 2bsh per microbatch and boundary, ${name}`, async () => {
      const { pp, schedule, microbatches, tp = 1, cp = 1 } = parallel;
      const numBoundaries = schedule === 'interleaved' ? 2 * pp - 1 : pp - 1;
      const boundaries = Array.from({ length: numBoundaries }, (_, i) => i);
      // Microbatches are equal parts of the batch.
      const once = BSH / microbatches / (tp * cp);
      await checkRun(job, { parallel }, (activations, { rank }) => {
        const index = Math.floor(rank / (WORLD / pp));
        const received = activations.filter(({ op }) => op === 'recv');
        for (const boundary of boundaries) {
          const own = received.filter(({ module }) => module === `stage ${boundary} | ${boundary + 1}`);
          // Outputs are received behind a boundary, and gradients before it.
          const directions = [boundary, boundary + 1].filter((stage) => stage % pp === index);
          assert.deepEqual(
            own.map(({ wireBytes }) => wireBytes / 4),
            new Array(microbatches * directions.length).fill(once),
            `rank ${rank}, boundary ${boundary}`,
          );
        }
      });
    });
  }
}

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { DitConfig } from '../../src/config/families/kinds';
import { PRESETS } from '../../src/config/named-config';
import { modelShape } from '../../src/config/settings/model';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { Run } from '../../src/session/run/run';
import { shareJob } from '../session/job-fixture';
import { casesHere, HAS_ALL_CASES } from '../support/cases';
import { assertClose } from '../support/close';

const model: Partial<DitConfig> & Pick<DitConfig, 'kind' | 'layers' | 'dim' | 'heads' | 'ffn' | 'latent'> = {
  ...wanTiny(),
  latent: [4, 4, 4],
  patch: [1, 2, 2],
  layers: 3,
  dim: 32,
  heads: 2,
  ffn: 48,
};
/** The recipe with a narrower model and larger patches, so a quarter of the positions; notebook 05 runs it as it is. */
const RECIPE: TrainConfigInput = { ...PRESETS.wan, model, batch: 2, movingShapes: { validation: 1 } };
/** The kinds of Wan2.2: extra channels for an image, audio, one transformer; under both kinds of context parallelism. */
const KINDS: Readonly<Record<string, TrainConfigInput>> = {
  'text to video, two experts, a sharded encoder, Ulysses': {},
  'image to video, ring': { model: { ...model, inChannels: 100 }, parallel: { cp: 2, cpKind: 'ring' } },
  'speech to video': { model: { ...model, experts: 1, audioLayers: [0, 2], audioDim: 12, audioTokens: 2 } },
  'text and image to video, a whole encoder': {
    model: { ...model, experts: 1 },
    textEncoder: { model: 't5-tiny', fsdp: false },
  },
};

/** A second step's losses depend on the first one's updates. */
const STEPS = HAS_ALL_CASES ? 3 : 2;

const CAPTIONS = ['a red circle moves right', 'a blue square moves up'];

const folder = mkdtempSync(join(tmpdir(), 'wan-'));
after(() => rmSync(folder, { recursive: true }));

describe("Wan's recipe as one config", () => {
  const shared = shareJob({ ranks: 4 });

  it('gives the losses, validation losses and videos of one rank, for every kind of model', async () => {
    const job = shared();
    const here = casesHere(KINDS, [
      'text to video, two experts, a sharded encoder, Ulysses',
      'image to video, ring',
    ]);
    for (const [name, kind] of Object.entries(here)) {
      // 8-bit states depend on how parameters are sharded. The head begins as 0: only large steps make losses depend on all layers.
      const config = { ...RECIPE, ...kind, optimizer: { lr: 0.02 }, schedule: null };
      const seen: (readonly number[])[] = [];
      for (const ranks of [1, 2]) {
        const parallel = ranks === 1 ? { strategy: 'NO_SHARD' as const } : config.parallel;
        const run = await job.train({ ...config, parallel }, { ranks });
        await run.step(STEPS);
        seen.push([...run.losses, (await run.evaluate()).loss, ...(await pixelsOf(run))]);
        await run.dispose();
      }
      const [alone = [], together = []] = seen;
      assertClose(together.slice(0, STEPS + 1), alone.slice(0, STEPS + 1), 1e-4, name);
      const apart = alone.filter((value, i) => Math.abs(value - (together[i] ?? Number.NaN)) > 1).length;
      assert.ok(apart < alone.length / 100, `${name}: ${apart} of ${alone.length} pixels differ`);
    }
  });

  it('runs on four ranks with 8-bit AdamW, and its checkpoint continues under another layout', async () => {
    const job = shared();
    const run = await job.train(RECIPE);
    await run.step(2);
    await run.save(folder);
    const { loss } = await run.evaluate();
    await run.step(2);
    const other = { ...RECIPE, parallel: { strategy: 'ZERO_2' as const } };
    const again = await job.train(other, { ranks: 2 });
    await again.load(folder);
    assertClose([(await again.evaluate()).loss], [loss], 1e-6, 'the loss of the loaded model');
    await again.step(2);
    // Both have two data-parallel ranks and so the same batches; 8-bit states have other blocks.
    assertClose(again.losses.slice(-2), run.losses.slice(-2), 1e-3, 'losses after loading');
  });

  it('refuses parts that do not fit together', async () => {
    const job = shared();
    const refused: readonly (readonly [TrainConfigInput, RegExp])[] = [
      [{ ...RECIPE, model: { ...model, textDim: 8 } }, /has outputs of width 32, but model\.textDim is 8/],
      [{ ...RECIPE, model: { ...model, textLen: 9 } }, /has 8 positions \(seq\), but model\.textLen is 9/],
      [
        { ...RECIPE, model: { ...model, outChannels: 16 } },
        /outChannels of 3·t·s².*model\.outChannels is 16/,
      ],
      [{ ...RECIPE, model: { ...model, inChannels: 52 } }, /inChannels 52 leaves 4/],
      [{ ...RECIPE, model: { ...model, audioLayers: [3] } }, /there is no block 3: the blocks are 0 to 2/],
      [{ model: 'tiny', data: 'moving-shapes' }, /are videos for a dit, but model\.kind is 'gpt'/],
      [{ model: 'tiny', textEncoder: {} }, /is for a dit, but model\.kind is 'gpt'/],
    ];
    for (const [config, message] of refused) await assert.rejects(job.train(config, { ranks: 1 }), message);
    const run = await job.train({ ...RECIPE, parallel: {} }, { ranks: 1 });
    await assert.rejects(
      run.sampleVideo('a red dog moves right'),
      /"a red dog moves right" is no caption; captions are/,
    );
    await assert.rejects(run.sampleVideo([]), /takes captions/);
    await run.dispose();
  });
});

async function pixelsOf(run: Run): Promise<number[]> {
  const { videos } = await run.sampleVideo(CAPTIONS, { steps: 2 });
  return videos.flatMap(({ pixels }) => [...pixels]);
}

/** The sizes of the small Wan that the library has by name. */
function wanTiny(): DitConfig {
  const shape = modelShape({ model: 'wan-tiny' });
  return shape.kind === 'dit' ? shape : assert.fail(shape.kind);
}

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { configWarnings } from '../../../src/config/config-warnings';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { planBundle, writeBundle } from '../../../src/programs/bundle/bundle';
import { readConfig } from '../../../src/programs/read';
import { toyConfig } from '../../../src/programs/toy';
import { recommend } from '../../../src/session/notebook/recommend';
import { createPlan } from '../../../src/session/plans/plan';
import { subjectOf } from '../../../src/session/plans/subject';

const SAID =
  /(model|wan2\.2-s2v-14b) has, of the inputs of Wan2\.2-S2V, only the text and the attention to audio: the reference image, the poses, the motion frames, and the scale and shift by audio are left out/;

const CONFIG: TrainConfigInput = { model: 'wan2.2-s2v-14b', batch: 1, parallel: { strategy: 'FULL_SHARD' } };
const PLACE = { on: 'H100-80G', gpus: 8 } as const;

/** What each door of the library says of a model. */
const DOORS: Readonly<Record<string, (config: TrainConfigInput) => string>> = {
  'job.train and a dry run': (config) => configWarnings(config, parseTrainConfig(config), 8).join('\n'),
  plan: (config) => createPlan(subjectOf(config, PLACE, {})).toText(),
  recommend: (config) => recommend(config, { ...PLACE, search: { strategies: ['FULL_SHARD'] } }).toText(),
  'a stand-in': (config) => toyConfig(config, { steps: 1, ranks: 8, isScaled: false }).notes.join('\n'),
  read: (config) =>
    readConfig(
      `torchrun --nproc_per_node=8 generate.py --task ${config.model === CONFIG.model ? 's2v-14B' : 't2v-A14B'} --dit_fsdp`.split(
        ' ',
      ),
    )
      .lines.map(({ why }) => why)
      .join('\n'),
  'the report of an export': (config) =>
    inFolder((out) => String(writeBundle(bundleOf(config, out), { prepared: undefined }))),
  'the refusal of an export': (config) =>
    inFolder((out) => {
      try {
        bundleOf({ ...config, batch: 2 }, out);
      } catch (error) {
        if (error instanceof Error) return error.message;
      }
      return '';
    }),
};

function bundleOf(config: TrainConfigInput, out: string) {
  const exported = parseTrainConfig({ ...config, data: 'synthetic', mixedPrecision: { paramDtype: 'bf16' } });
  return planBundle(exported, { to: 'accelerate', out, gpusPerMachine: 8 });
}

function inFolder(use: (folder: string) => string): string {
  const folder = mkdtempSync(join(tmpdir(), 'left-out-'));
  try {
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('every door says what Wan2.2-S2V lacks here, and says nothing of a whole model', () => {
  for (const [door, saysOf] of Object.entries(DOORS)) {
    assert.match(saysOf(CONFIG), SAID, door);
    assert.doesNotMatch(saysOf({ ...CONFIG, model: 'wan2.2-a14b' }), /left out, so its weights/, door);
  }
});

test('a stand-in keeps the inputs besides the text: the image, and the audio', () => {
  const shapeOf = (model: TrainConfigInput['model']) => {
    const { config } = toyConfig({ ...CONFIG, model }, { steps: 1, ranks: 2, isScaled: false });
    const shape = modelShape(parseTrainConfig(config));
    assert.ok(shape.kind === 'dit');
    return [shape.inChannels - shape.outChannels, shape.audioLayers.length];
  };
  assert.deepEqual(shapeOf('wan2.2-a14b'), [0, 0]);
  assert.deepEqual(shapeOf('wan2.2-i2v-a14b'), [52, 0]);
  assert.deepEqual(shapeOf('wan2.2-s2v-14b'), [0, 1]);
});

test('a folder of S2V, of the VAE or of the text encoder says why there is no such model', () => {
  const folder = mkdtempSync(join(tmpdir(), 'no-model-'));
  try {
    for (const [config, message] of [
      [
        {
          _class_name: 'WanModel_S2V',
          dim: 8,
          num_heads: 2,
          num_layers: 1,
          ffn_dim: 8,
          in_dim: 4,
          out_dim: 4,
        },
        /of the inputs of Wan2\.2-S2V.*left out, so its weights cannot be read/,
      ],
      [
        { _class_name: 'AutoencoderKLWan', z_dim: 16 },
        /video autoencoder \(VAE\), which has no module here: a fixed coder/,
      ],
      [{ model_type: 'umt5' }, /has a text encoder.*give textEncoder: \{ from \}/],
    ] as const) {
      writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
      assert.throws(() => parseTrainConfig({ model: { from: folder } }), message);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

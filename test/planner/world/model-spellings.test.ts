import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { BUILT_FAMILIES, FAMILIES } from '../../../src/config/families/families';
import { publishedModel } from '../../../src/config/families/published';
import { CATALOGUE, knownModel, PUBLISHED_NAMES } from '../../../src/config/model-names';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig } from '../../../src/config/train-config';
import { plannedInput } from '../../../src/planner/plan-input';

// One catalogue, one reader: however a model is written, it has one set of sizes.

const folder = mkdtempSync(join(tmpdir(), 'spelled-'));
after(() => rmSync(folder, { recursive: true }));

/** Ways in which people and programs write a model's name. */
function spellingsOf(name: string): readonly string[] {
  const { _name_or_path: onHub = `Owner/${name}` } = CATALOGUE[name] ?? {};
  const last = onHub.replace(/^.*\//, '');
  const variants = [
    last,
    last.replace(/-hf$/, ''),
    `${last}-Instruct`,
    `${last}-Chat`,
    `${last}-hf`,
    `${last}-it`,
  ];
  const written = [name, onHub, ...variants, ...variants.map((each) => `/data/models/${each}/`)];
  return [...new Set(written.flatMap((each) => [each, each.toLowerCase(), each.toUpperCase()]))];
}

const place = { on: 'H100-80G', gpus: 64, parallel: { strategy: 'FULL_SHARD' } } as const;

/** What a plan says: its model, and its answer. */
function planOf(input: Parameters<typeof plannedInput>[0]) {
  const { layout, prediction } = plannedInput(input, place);
  const { name: _, ...sizes } = layout.model;
  return {
    sizes,
    batch: layout.globalBatch,
    precision: layout.precision,
    attention: layout.attention,
    prediction,
  };
}

function runOf(model: object | string) {
  const {
    from: _,
    like: __,
    ...sizes
  } = modelShape(parseTrainConfig({ model: model as never, data: 'function' })) as {
    from?: unknown;
    like?: unknown;
  };
  return sizes;
}

test('every spelling of a model is planned and built with equal sizes', () => {
  for (const name of Object.keys(CATALOGUE)) {
    const plan = planOf(name);
    const spellings = spellingsOf(name);
    for (const spelled of spellings) assert.equal(knownModel(spelled), name, spelled);
    for (const spelled of [spellings[0], spellings.at(-1)] as string[]) {
      assert.deepEqual(planOf(spelled), plan, spelled);
      assert.deepEqual(planOf({ model: spelled }), plan, spelled);
      assert.deepEqual(planOf({ model: { like: spelled } }), plan, spelled);
    }
  }
  for (const name of PUBLISHED_NAMES) {
    const run = runOf(name);
    for (const spelled of spellingsOf(name)) {
      assert.deepEqual(runOf(spelled), run, spelled);
      assert.deepEqual(runOf({ like: spelled }), run, spelled);
    }
  }
});

test("a config.json of a model is planned and built as the model's name", () => {
  for (const [name, { training = {}, ...config }] of Object.entries(CATALOGUE)) {
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    // The file of a model of videos does not say how large videos are.
    if (config._class_name === undefined)
      for (const written of [folder, { model: folder }, { model: { like: folder } }])
        assert.deepEqual(planOf(written), planOf(name), name);
    const { latent } = training;
    const isBuilt = PUBLISHED_NAMES.some((each) => each === name);
    if (!isBuilt || training.experts !== undefined) continue;
    const { refusal } = FAMILIES[String(config._class_name ?? config.model_type)] ?? {};
    if (refusal === undefined || refusal(config, {}) !== null) continue;
    const given = { from: folder, attention: 'flash', ...(latent === undefined ? {} : { latent }) };
    assert.deepEqual(runOf(given), runOf(name), name);
  }
});

test('a config.json that is written here is read back as the same model', () => {
  const sizes = { layers: 2, dim: 32, heads: 4, vocab: 96, seq: 16 };
  const video = { layers: 1, dim: 32, heads: 2, ffn: 64, latent: [2, 4, 4], inChannels: 36, textLen: 16 };
  const models = [
    { kind: 'gpt', ...sizes, ffn: 48, tied: false },
    { kind: 'llama', ...sizes, ffn: 48, kvHeads: 2, ropeTheta: 5000 },
    { kind: 'llama', ...sizes, ffn: 48, kvHeads: 4, qkvBias: true, tied: true },
    { kind: 'dit', ...video, patch: [1, 1, 1] },
    { kind: 'dit', ...video, className: 'WanTransformer3DModel', normEps: 1e-5 },
  ];
  const written = models.map((model) => {
    const shape = modelShape(parseTrainConfig({ model: model as never, data: 'function' }));
    const { config } = publishedModel(shape);
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    const given = model.kind === 'dit' ? { latent: [2, 4, 4], textLen: 16 } : {};
    assert.deepEqual(runOf({ from: folder, ...given }), runOf(model), JSON.stringify(model));
    return config._class_name === undefined ? config.model_type : `_class_name ${config._class_name}`;
  });
  // A Mistral is written as a Llama: both have the same layers.
  assert.deepEqual([...new Set([...written, 'mistral'])].sort(), [...BUILT_FAMILIES].sort());
});

test('a config that also has an encoder of images is planned as its language model, and says so', () => {
  const text = CATALOGUE['llama2-7b'];
  assert.ok(text !== undefined);
  const config = { model_type: 'llava', text_config: text, vision_config: { hidden_size: 1024 } };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  const { layout, assumed } = plannedInput(folder, 'A100-80G');
  assert.match(layout.model.name, /, text model only$/);
  assert.equal(layout.model.params, plannedInput('llama2-7b', 'A100-80G').layout.model.params);
  assert.match(assumed.map(({ says }) => says).join(), /its encoder of images or sounds is left out/);
});

test("a config of Wan2.1's image-to-video model is planned with the layers that read an image, and no run builds it", () => {
  const params = (written: Parameters<typeof plannedInput>[0]) =>
    plannedInput(written, 'H100-80G').layout.model.params;
  const wan22 = CATALOGUE['wan2.2-i2v-a14b'];
  assert.ok(wan22 !== undefined);
  const { training: _, ...config } = wan22;
  // Both published configs have the same sizes; only the release of diffusers that wrote them differs.
  const write = (release: string) =>
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, _diffusers_version: release }));
  const latent = [21, 60, 104];
  write('0.30.0');
  assert.equal(params(folder), params('Wan2.1-I2V-14B'));
  assert.throws(() => runOf({ from: folder, latent }), /i2v of Wan2\.1 .* also read an image's tokens/);
  write('0.33.0');
  assert.equal(2 * params(folder), params('wan2.2-i2v-a14b'));
  assert.doesNotThrow(() => runOf({ from: folder, latent }));
});

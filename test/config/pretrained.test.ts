import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig } from '../../src/config/train-config';
import { testData } from '../support/paths';

const LLAMA = {
  model_type: 'llama',
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  vocab_size: 96,
  max_position_embeddings: 64,
};

const WAN = {
  _class_name: 'WanModel',
  ...{
    model_type: 't2v',
    dim: 32,
    ffn_dim: 64,
    freq_dim: 16,
    in_dim: 4,
    out_dim: 4,
    num_heads: 2,
    num_layers: 1,
    text_len: 4,
  },
};

const DIFFUSERS = {
  _class_name: 'WanTransformer3DModel',
  ...{ num_attention_heads: 2, attention_head_dim: 16, ffn_dim: 64, freq_dim: 16, num_layers: 1 },
  ...{ in_channels: 4, out_channels: null, rope_max_seq_len: 8 },
};

describe("a model's folder", () => {
  let folder = '';
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'pretrained-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  const refused = (config: object | string, message: RegExp, more: object = {}): void => {
    writeFileSync(join(folder, 'config.json'), typeof config === 'string' ? config : JSON.stringify(config));
    assert.throws(() => parseTrainConfig({ model: { from: folder, ...more } }), message);
  };

  it('gives the sizes in its config.json', () => {
    const from = testData(join('pretrained', 'llama'));
    const shape = modelShape(parseTrainConfig({ model: { from, seq: 8 }, data: 'synthetic' }));
    assert.deepEqual(
      { ...shape },
      {
        ...{ kind: 'llama', from, layers: 2, dim: 32, heads: 4, kvHeads: 2, ffn: 48, vocab: 96, seq: 8 },
        ...{ tied: false, ropeTheta: 5000, normEps: 1e-5, qkvBias: false, attention: 'eager' },
      },
    );
    const parsed = parseTrainConfig({ model: { from }, data: 'synthetic' });
    assert.deepEqual(parseTrainConfig(parsed), parsed);
  });

  it('is refused if its model computes something else, and the error names the key', () => {
    refused(
      { ...LLAMA, rope_scaling: { type: 'linear', factor: 2 } },
      /model: .*config\.json: rope_scaling is .*"factor":2/,
    );
    refused({ ...LLAMA, rope_parameters: { rope_type: 'llama3' } }, /rope_parameters\.rope_type is "llama3"/);
    refused({ ...LLAMA, attention_bias: true }, /attention_bias is true, but models here have false/);
    refused(
      { ...LLAMA, head_dim: 16 },
      /head_dim is 16, but models here have hidden_size \/ num_attention_heads = 8/,
    );
    refused({ ...LLAMA, head_dim: 'x' }, /head_dim: expected a number, got "x"/);
    refused(LLAMA, /latent has no meaning for a language model/, { latent: [1, 2, 2] });
    refused(WAN, /does not say how large videos are; give latent/);
    refused(WAN, /seq has no meaning for a model of videos/, { latent: [1, 2, 2], seq: 8 });
    refused(
      { ...LLAMA, hidden_size: undefined },
      /config\.json: hidden_size is missing; write it into the config, because llama needs it/,
    );
    refused(
      { ...LLAMA, max_position_embeddings: null },
      /max_position_embeddings is missing; write it into the config, or give seq/,
    );
    refused(
      { model_type: 'bert' },
      /model_type is "bert"; choose one of gpt2, llama, mistral, qwen2, _class_name WanModel, _class_name WanTransformer3DModel/,
    );
    refused(
      { ...LLAMA, model_type: 'mistral', sliding_window: 32 },
      /sliding_window is 32, but attention here sees all tokens; give a seq of at most 32/,
      { seq: 64 },
    );
    refused('{', /config\.json cannot be read: /);
    refused(LLAMA, /has no key "revision"; choose one of from, seq, attention, latent, textLen/, {
      revision: 'main',
    });
    const gpt2 = { model_type: 'gpt2', n_layer: 1, n_embd: 8, n_head: 2, n_positions: 8, vocab_size: 9 };
    refused(gpt2, /learned embedding for each of 8 positions, so seq cannot be 4/, { seq: 4 });
    assert.throws(
      () => parseTrainConfig({ model: { from: '/nowhere' } }),
      /model: \/nowhere\/config\.json is missing; give a folder/,
    );
  });

  it('with a sliding window has the sequences that the window contains', () => {
    const seqOf = (window: number | null): unknown => {
      const config = { ...LLAMA, model_type: 'mistral', sliding_window: window };
      writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
      const shape = modelShape(parseTrainConfig({ model: { from: folder }, data: 'synthetic' }));
      return 'seq' in shape && shape.seq;
    };
    assert.deepEqual([null, 32, 4096].map(seqOf), [64, 32, 64]);
  });

  it("in diffusers' form is refused if the model has an input for images, by the key", () => {
    const latent = [1, 2, 2];
    writeFileSync(join(folder, 'config.json'), JSON.stringify(DIFFUSERS));
    const shape = modelShape(parseTrainConfig({ model: { from: folder, latent } }));
    assert.ok(shape.kind === 'dit');
    assert.deepEqual([shape.dim, shape.outChannels, shape.textLen], [32, 4, 512]);
    for (const key of ['image_dim', 'added_kv_proj_dim', 'pos_embed_seq_len']) {
      refused({ ...DIFFUSERS, [key]: 64 }, new RegExp(`${key} is 64, but models here have null`), { latent });
    }
    refused({ ...DIFFUSERS, qk_norm: null }, /qk_norm is null, but .*"rms_norm_across_heads"/, { latent });
    refused(DIFFUSERS, /rope_max_seq_len is 8, but latent \[1,2,18\] has more/, { latent: [1, 2, 18] });
    refused(DIFFUSERS, /does not say how large videos are/);
  });

  it('may be given by the files of its weights if none is missing', () => {
    const at = mkdtempSync(join(folder, 'list-'));
    writeFileSync(join(at, 'config.json'), JSON.stringify(WAN));
    const files = [1, 2].map((k) => join(at, `diffusion_pytorch_model-0000${k}-of-00002.safetensors`));
    const [one = '', two = ''] = files;
    const latent = [1, 2, 2] as [number, number, number];
    const parse = (from: string | readonly unknown[]) =>
      modelShape(parseTrainConfig({ model: { from: from as string[], latent } })); // wrong values are tested too
    const wrong = (from: string | readonly unknown[], message: RegExp) =>
      assert.throws(() => parse(from), { code: 'CONFIG', message });
    writeFileSync(one, '');
    wrong([one], /00002-of-00002\.safetensors is not in the list; give all shards/);
    wrong(files, /00002-of-00002\.safetensors is missing; copy or download it too/);
    writeFileSync(two, 'version https://git-lfs.github.com/spec/v1\n');
    wrong(files, /00002-of-00002\.safetensors is a Git-LFS pointer.*run `git lfs pull`/);
    writeFileSync(two, '');
    for (const from of [files, [files], at]) {
      const shape = parse(from);
      assert.deepEqual('from' in shape && shape.from, at);
    }
    wrong(
      [one, two, join(folder, 'other.safetensors')],
      /the files are in .* and in .*; give the folder of each model/,
    );
    wrong([], /from is \[\]; give a folder's path, or the files of one model/);
    wrong(join(at, 'x.pth'), /x\.pth is a torch pickle.*python -c "import torch, safetensors/);
    writeFileSync(join(at, 'model.safetensors'), '');
    wrong(files, /also has model\.safetensors, which is not in the list/);
    writeFileSync(join(at, 'config.json'), 'version https://git-lfs.github.com/spec/v1\n');
    wrong(at, /config\.json is a Git-LFS pointer/);
  });

  it('with models within names them', () => {
    const pipeline = mkdtempSync(join(tmpdir(), 'pipeline-'));
    try {
      for (const name of ['transformer', 'transformer_2']) {
        mkdirSync(join(pipeline, name));
        writeFileSync(join(pipeline, name, 'config.json'), JSON.stringify(DIFFUSERS));
      }
      assert.throws(
        () => parseTrainConfig({ model: { from: pipeline } }),
        /config\.json is missing; .* give one subfolder per run: .*\/transformer or .*\/transformer_2/,
      );
    } finally {
      rmSync(pipeline, { recursive: true });
    }
  });
});

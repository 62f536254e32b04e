import assert from 'node:assert/strict';
import fs, { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parseTrainConfig } from '../../../src/config/train-config';
import { seeded } from '../../../src/core/random';
import { encodeHeader } from '../../../src/training/checkpoint/format/safetensors-header';
import {
  type EncoderConfig,
  textEncoderOf,
} from '../../../src/training/checkpoint/pretrained/text-encoder-model';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-encoder-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** The sizes of an encoder in the words of UMT5's config.json. */
interface Sizes {
  readonly layers: number;
  readonly dModel: number;
  readonly attnDim: number;
  readonly heads: number;
  readonly dFf: number;
  readonly vocab: number;
}

/** UMT5-XXL. Source: google/umt5-xxl's config.json; shapes of Wan-AI's models_t5_umt5-xxl-enc-bf16.pth. */
const XXL: Sizes = { layers: 24, dModel: 4096, attnDim: 4096, heads: 64, dFf: 10240, vocab: 256384 };
const SMALL: Sizes = { layers: 2, dModel: 8, attnDim: 12, heads: 2, dFf: 16, vocab: 32 };

type Shapes = Readonly<Record<string, readonly number[]>>;

/** Names and shapes of Wan's file. */
function ofWan({ layers, dModel, attnDim, heads, dFf, vocab }: Sizes): Shapes {
  const blocks = Array.from(
    { length: layers },
    (_, i): Shapes => ({
      [`blocks.${i}.norm1.weight`]: [dModel],
      [`blocks.${i}.attn.q.weight`]: [attnDim, dModel],
      [`blocks.${i}.attn.k.weight`]: [attnDim, dModel],
      [`blocks.${i}.attn.v.weight`]: [attnDim, dModel],
      [`blocks.${i}.attn.o.weight`]: [dModel, attnDim],
      [`blocks.${i}.norm2.weight`]: [dModel],
      [`blocks.${i}.ffn.gate.0.weight`]: [dFf, dModel],
      [`blocks.${i}.ffn.fc1.weight`]: [dFf, dModel],
      [`blocks.${i}.ffn.fc2.weight`]: [dModel, dFf],
      [`blocks.${i}.pos_embedding.embedding.weight`]: [32, heads],
    }),
  );
  return Object.assign({ 'token_embedding.weight': [vocab, dModel], 'norm.weight': [dModel] }, ...blocks);
}

/** Names and shapes of transformers' UMT5ForConditionalGeneration, with two tensors of its decoder. */
function ofTransformers({ layers, dModel, attnDim, heads, dFf, vocab }: Sizes): Shapes {
  const blocks = Array.from({ length: layers }, (_, i): Shapes => {
    const [attention, dense] = [`encoder.block.${i}.layer.0`, `encoder.block.${i}.layer.1`];
    return {
      [`${attention}.layer_norm.weight`]: [dModel],
      [`${attention}.SelfAttention.q.weight`]: [attnDim, dModel],
      [`${attention}.SelfAttention.k.weight`]: [attnDim, dModel],
      [`${attention}.SelfAttention.v.weight`]: [attnDim, dModel],
      [`${attention}.SelfAttention.o.weight`]: [dModel, attnDim],
      [`${attention}.SelfAttention.relative_attention_bias.weight`]: [32, heads],
      [`${dense}.layer_norm.weight`]: [dModel],
      [`${dense}.DenseReluDense.wi_0.weight`]: [dFf, dModel],
      [`${dense}.DenseReluDense.wi_1.weight`]: [dFf, dModel],
      [`${dense}.DenseReluDense.wo.weight`]: [dModel, dFf],
    };
  });
  return Object.assign(
    {
      'shared.weight': [vocab, dModel],
      'encoder.embed_tokens.weight': [vocab, dModel],
      'encoder.final_layer_norm.weight': [dModel],
      'decoder.final_layer_norm.weight': [dModel],
      'lm_head.weight': [vocab, dModel],
    },
    ...blocks,
  );
}

/** Writes a safetensors file in bf16; each value is the same number, which its tensor's name and place determine. Large files have holes in place of values. */
function write(name: string, shapes: Shapes, valuesAt?: (tensor: string, i: number) => number): string {
  const path = join(folder, name);
  const tensors = new Map(
    Object.entries(shapes).map(([key, shape]) => [key, { dtype: 'BF16', shape } as const]),
  );
  const { bytes, header, fileBytes } = encodeHeader(tensors, { format: 'pt' });
  fs.writeFileSync(path, bytes);
  fs.truncateSync(path, fileBytes);
  if (valuesAt === undefined) return path;
  const file = fs.openSync(path, 'r+');
  for (const [key, { from, to }] of header.tensors) {
    const values = Float32Array.from({ length: (to - from) / 2 }, (_, i) => valuesAt(key, i));
    const stored = new Uint16Array(new Uint32Array(values.buffer).map((bits) => bits >>> 16));
    fs.writeSync(file, stored, 0, stored.byteLength, header.dataStart + from);
  }
  fs.closeSync(file);
  return path;
}

function configOf(sizes: Sizes | null, from: string): EncoderConfig {
  const model =
    sizes === null
      ? 'umt5-xxl-encoder'
      : ({
          ...{ kind: 't5-encoder', layers: sizes.layers, dim: sizes.dModel, attnDim: sizes.attnDim },
          ...{ heads: sizes.heads, ffn: sizes.dFf, vocab: sizes.vocab, seq: 4 },
        } as const);
  const [textDim, textLen] = sizes === null ? [4096, 512] : [sizes.dModel, 4];
  const dit = {
    kind: 'dit',
    layers: 1,
    dim: 8,
    heads: 2,
    ffn: 8,
    latent: [1, 2, 2],
    textDim,
    textLen,
  } as const;
  return parseTrainConfig({ model: dit, data: 'synthetic', textEncoder: { model, from } }) as EncoderConfig; // it has an encoder
}

/** A value that bf16 holds exactly. */
const valueAt = (name: string, i: number): number => Math.round(seeded(0, name, i).uniform() * 64) / 64;

/** Returns all values of an encoder. */
function valuesOf(config: EncoderConfig): ReadonlyMap<string, Float32Array> {
  const { model, close } = textEncoderOf(config);
  const values = new Map(
    [...model.text_encoder.namedState()].map(([name, { shape, source }]) => {
      const target = new Float32Array(shape.reduce((product, extent) => product * extent, 1));
      source?.fill(0, target);
      return [name, target];
    }),
  );
  close();
  return values;
}

test("an encoder gets each value of Wan's file, and the same from transformers' names", () => {
  const wan = ofWan(SMALL);
  const values = valuesOf(configOf(SMALL, write('wan.safetensors', wan, valueAt)));
  assert.deepEqual([...values.keys()].sort(), Object.keys(wan).sort());
  for (const [name, seen] of values)
    assert.deepEqual(
      seen,
      seen.map((_, i) => valueAt(name, i)),
      name,
    );
  // The names of both files in the order of their layers, which is the same order of shapes.
  const theirs: Readonly<Record<string, string>> = {
    'shared.weight': 'token_embedding.weight',
    'encoder.final_layer_norm.weight': 'norm.weight',
    'encoder.block.1.layer.0.layer_norm.weight': 'blocks.1.norm1.weight',
    'encoder.block.1.layer.1.layer_norm.weight': 'blocks.1.norm2.weight',
    'encoder.block.0.layer.0.SelfAttention.o.weight': 'blocks.0.attn.o.weight',
    'encoder.block.0.layer.0.SelfAttention.q.weight': 'blocks.0.attn.q.weight',
    'encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight':
      'blocks.1.pos_embedding.embedding.weight',
    'encoder.block.1.layer.1.DenseReluDense.wi_0.weight': 'blocks.1.ffn.gate.0.weight',
    'encoder.block.1.layer.1.DenseReluDense.wi_1.weight': 'blocks.1.ffn.fc1.weight',
    'encoder.block.0.layer.1.DenseReluDense.wo.weight': 'blocks.0.ffn.fc2.weight',
  };
  const file = write('umt5.safetensors', ofTransformers(SMALL), valueAt);
  const others = valuesOf(configOf(SMALL, file));
  for (const [name, own] of Object.entries(theirs))
    assert.deepEqual(
      others.get(own),
      others.get(own)?.map((_, i) => valueAt(name, i)),
      own,
    );
});

test('the published UMT5-XXL fits the encoder of this name, by the headers of its files', () => {
  for (const shapes of [ofWan(XXL), ofTransformers(XXL)]) {
    const file = write('xxl.safetensors', shapes);
    const { model, close } = textEncoderOf(configOf(null, file));
    const numParams = [...model.text_encoder.namedState().values()].reduce(
      (sum, { shape }) => sum + shape.reduce((product, extent) => product * extent, 1),
      0,
    );
    assert.equal(numParams, 5_680_910_336);
    close();
    rmSync(file);
  }
});

test('weights of another size, and other files, are refused with what is wrong', () => {
  const file = write('wrong.safetensors', ofWan({ ...SMALL, dFf: 24 }), valueAt);
  const { code, message } = {
    code: 'SHAPE',
    message:
      /textEncoder\.from: .*wrong\.safetensors does not fit textEncoder\.model: blocks\.0\.ffn\.gate\.0\.weight has shape \[24, 8\]/,
  };
  assert.throws(() => textEncoderOf(configOf(SMALL, file)), { code, message });
  const pickle = join(folder, 'models_t5_umt5-xxl-enc-bf16.pth');
  fs.writeFileSync(pickle, 'PK\u0003\u0004....');
  assert.throws(() => textEncoderOf(configOf(SMALL, pickle)), /is a torch pickle.*python -c/);
  assert.doesNotThrow(
    () => textEncoderOf(configOf(SMALL, join(folder, 'none')), false),
    'a dry run reads no files',
  );
});

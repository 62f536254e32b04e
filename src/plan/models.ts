import { nearest } from '../config/nearest';
import { ConfigError } from '../core/errors';
import type { ModelShapeInput } from './model-shape';

/** Published shapes of models. Source: the models' own configuration files. */
export const MODELS = {
  'wan2.2-a14b': {
    kind: 'dit',
    experts: 2,
    layers: 40,
    dim: 5120,
    ffn: 13_824,
    heads: 40,
    freqDim: 256,
    textDim: 4096,
    textLen: 512,
    inChannels: 16,
    outChannels: 16,
  },
  'umt5-xxl-encoder': {
    kind: 't5-encoder',
    layers: 24,
    dim: 4096,
    heads: 64,
    ffn: 10_240,
    gatedFfn: true,
    vocab: 256_384,
    relativeBuckets: 32,
  },
  'qwen-14b': llama([40, 5120, 40, 40, 13_696, 152_064], { qkvBias: true }),
  'qwen-7b': llama([32, 4096, 32, 32, 11_008, 151_936], { qkvBias: true }),
  'llama3-8b': llama([32, 4096, 32, 8, 14_336, 128_256]),
  'llama3-70b': llama([80, 8192, 64, 8, 28_672, 128_256]),
  'llama3-405b': llama([126, 16_384, 128, 8, 53_248, 128_256]),
  gpt2: { kind: 'gpt', layers: 12, dim: 768, heads: 12, vocab: 50_257, seq: 1024 },
  'gpt2-xl': { kind: 'gpt', layers: 48, dim: 1600, heads: 25, vocab: 50_257, seq: 1024 },
  'gpt3-175b': { kind: 'gpt', layers: 96, dim: 12_288, heads: 96, vocab: 51_200, seq: 2048 },
} as const satisfies Record<string, ModelShapeInput>;

export type ModelName = keyof typeof MODELS;

/** The published shape of that name, also as a hub has it ('meta-llama/Llama-3.1-8B'). Throws: CONFIG with the nearest name. */
export function modelOf(name: string): ModelShapeInput {
  const key = name
    .toLowerCase()
    .replace(/^.*\/(meta-)?/, '')
    .replaceAll('_', '-')
    .replace('llama-3', 'llama3')
    .replace('3.1', '3');
  const known = Object.entries<ModelShapeInput>(MODELS).find(([each]) => each === key)?.[1];
  if (known !== undefined) return { name: key, ...known };
  const names = Object.keys(MODELS);
  const close = nearest(name, names);
  throw new ConfigError(
    `model: '${name}' is not known${close === undefined ? '.' : `; did you mean '${close}'?`} ` +
      `Known: ${names.join(', ')}; any other by its shape { kind, layers, dim, heads, vocab, seq } or { params }`,
  );
}

type LlamaFigures = readonly [
  layers: number,
  dim: number,
  heads: number,
  kvHeads: number,
  ffn: number,
  vocab: number,
];

function llama(figures: LlamaFigures, more: ModelShapeInput = {}): ModelShapeInput {
  const [layers, dim, heads, kvHeads, ffn, vocab] = figures;
  return { kind: 'llama', layers, dim, heads, kvHeads, ffn, vocab, ...more };
}

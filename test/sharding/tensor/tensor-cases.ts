import type { ModelCase } from './tensor-models';
import type { TensorRun } from './tensor-rank';

/** 6 heads, a vocabulary and a feed-forward width that neither 2, 3 nor 4 ranks divide, and 12 positions. */
const GPT: ModelCase = { kind: 'gpt', layers: 2, dim: 24, heads: 6, ffn: 31, vocab: 61, seq: 12, seed: 4 };
/** 8 heads of queries, 2 of keys and values. */
const LLAMA: ModelCase = {
  kind: 'llama',
  layers: 2,
  dim: 32,
  heads: 8,
  kvHeads: 2,
  ffn: 22,
  vocab: 61,
  seq: 12,
  seed: 5,
};
const QWEN: ModelCase = { ...LLAMA, kvHeads: 1, tied: true, qkvBias: true };
const OWN: ModelCase = { kind: 'own', seed: 6 };
const OWN_SEQUENCE: ModelCase = { kind: 'ownSequence', seed: 6 };

/** The trainings of each world, by name. */
export const RUNS: Readonly<Record<2 | 3 | 4, Readonly<Record<string, TensorRun>>>> = {
  2: {
    gpt: { model: GPT, tp: 2 },
    'gpt with an own head, flash attention': {
      model: { ...GPT, tied: false, attention: 'flash' },
      tp: 2,
      isMade: true,
    },
    'gpt, sequence parallel': { model: GPT, tp: 2, sequenceParallel: true },
    'gpt, recomputed': { model: GPT, tp: 2, recompute: 'full' },
    'gpt, recomputed in part': { model: GPT, tp: 2, recompute: 'selective' },
    'gpt, sequence parallel, recomputed': { model: GPT, tp: 2, sequenceParallel: true, recompute: 'full' },
    qwen: { model: QWEN, tp: 2 },
    'gpt, naive': { model: GPT, tp: 2, isNaive: true },
    'gpt with one class per rank': { model: { ...GPT, vocab: 2 }, tp: 2 },
    'own model, sequence parallel': { model: OWN_SEQUENCE, tp: 2 },
  },
  3: {
    gpt: { model: GPT, tp: 3 },
    'gpt, naive': { model: GPT, tp: 3, isNaive: true },
    'gpt with a rank without classes': { model: { ...GPT, vocab: 2 }, tp: 3 },
    'gpt, sequence parallel': { model: GPT, tp: 3, sequenceParallel: true },
    'own model': { model: OWN, tp: 3 },
    'own model, sequence parallel': { model: OWN_SEQUENCE, tp: 3 },
  },
  4: {
    llama: { model: LLAMA, tp: 4 },
    'qwen, sequence parallel': { model: QWEN, tp: 4, sequenceParallel: true },
    'gpt, 2 replicas of DDP': { model: GPT, tp: 2, dp: 'DDP' },
    'llama, 2 shards, sequence parallel, recomputed': {
      model: LLAMA,
      tp: 2,
      dp: 'FULL_SHARD',
      sequenceParallel: true,
      recompute: 'full',
    },
    'gpt, 2 shards': { model: GPT, tp: 2, dp: 'FULL_SHARD' },
  },
};

/** Trainings with a reduction that is skipped. */
export const DEFECTS: Readonly<Record<string, TensorRun>> = {
  'after a matrix that is split by rows': { model: GPT, tp: 2, unreduced: 'blocks.0.fc2' },
  'of the gradient before a matrix that is split by columns': {
    model: GPT,
    tp: 2,
    unreduced: 'blocks.1.qkv',
  },
  'after a matrix that is split by rows, naive': {
    model: GPT,
    tp: 2,
    isNaive: true,
    unreduced: 'blocks.0.fc2',
  },
  'of the gradient before a matrix that is split by columns, naive': {
    model: GPT,
    tp: 2,
    isNaive: true,
    unreduced: 'blocks.1.qkv',
  },
  'of the loss': { model: GPT, tp: 2, unreduced: 'lm_head' },
  'of the gradient before the head': { model: GPT, tp: 2, unreduced: 'ln_f' },
  "of a norm's gradients over the sequence": {
    model: GPT,
    tp: 2,
    sequenceParallel: true,
    unreduced: 'blocks.0.ln1',
  },
};

/** Rounded to 16 bits. */
export const ROUNDED: TensorRun = { model: GPT, tp: 2, dp: 'FULL_SHARD', bfloat16: true };

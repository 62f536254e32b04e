import type { Bytes } from '../../../src/core/units';

/** A GPT in the paper's letters: s tokens, b sequences per microbatch, h values, a heads, L layers, v tokens in the vocabulary. */
export interface PaperGpt {
  readonly s: number;
  readonly b: number;
  readonly h: number;
  readonly a: number;
  readonly layers: number;
  readonly v: number;
}

/** How the paper saves memory; t ranks of tensor parallelism. */
export interface PaperSaving {
  readonly t: number;
  readonly sequenceParallel: boolean;
  readonly recompute: 'none' | 'selective' | 'full';
}

/** A pipeline of p stages, each in m interleaved parts (m = 1: 1F1B). */
export interface PaperPipeline {
  readonly p: number;
  readonly m: number;
}

/**
 * Activations of one transformer layer, 16 bits per value and one byte per mask.
 * Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", equations 1 to 4 and 6, table 2.
 */
export function activationsPerLayer({ s, b, h, a }: PaperGpt, saving: PaperSaving): Bytes {
  const { t, sequenceParallel, recompute } = saving;
  const sbh = s * b * h;
  if (recompute === 'full') return 2 * sbh;
  const core = recompute === 'selective' ? 0 : (5 * a * s) / h;
  return sequenceParallel ? (sbh * (34 + core)) / t : sbh * (10 + (24 + core) / t);
}

/**
 * Activations of the first stage, which holds most: of p microbatches' L/p layers, or (1 + (p - 1)/(pm)) of the model's if
 * interleaved; and the activations before and behind the layers.
 * Source: section 4.2.3, equation 5, and section 4.3.
 */
export function activationsOfFirstStage(gpt: PaperGpt, saving: PaperSaving, { p, m }: PaperPipeline): Bytes {
  const interleaving = m === 1 ? 1 : 1 + (p - 1) / (p * m);
  return gpt.layers * interleaving * activationsPerLayer(gpt, saving) + activationsOutside(gpt, saving.t, p);
}

/** Embedding's dropout for p microbatches; without a pipeline the last norm's and the head's inputs and float32 logits. Source: section 4.3. */
export function activationsOutside({ s, b, h, v }: PaperGpt, t: number, p: number): Bytes {
  const sbh = s * b * h;
  return (sbh * p) / t + (p === 1 ? ((4 * sbh) / t) * (1 + v / h) : 0);
}

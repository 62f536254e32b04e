import { z } from 'zod';
import { issuesMessage, keysOf, size, toIssues } from '../../config';
import { type Bytes, ConfigError } from '../../core';
import type { Layout } from '../layout';
import type { ModelShape } from '../model-shape';
import { reservableBytes } from './allocator';
import { stageOf } from './pipeline-stage';
import { hasQuantizedMatrices, nf4Bytes } from './quantized-weights';

const DTYPE_BYTES = { fp32: 4, bf16: 2, fp16: 2, fp8: 1 } as const;

const dtype = z.enum(['fp32', 'bf16', 'fp16', 'fp8']).default('bf16');

const inferenceSchema = z.strictObject({
  /** Sequences that one copy of the model generates at once. */
  batch: size.default(1),
  /** Tokens of a sequence, prompt and answer together. Default: the model's `seq`. */
  seq: size.optional(),
  /** 'nf4': the layers' matrices are in bitsandbytes' NF4 (4 bits, doubly quantized); other weights are in 16 bits. */
  weights: z.enum(['fp32', 'bf16', 'fp16', 'fp8', 'nf4']).default('bf16'),
  cache: dtype,
});

/** The text to generate: sequences at once, tokens of each, and the types of weights and cache. */
export type InferenceRequest = z.input<typeof inferenceSchema>;

/** The memory in which a model generates text: its weights, and its cache of keys and values. */
export interface InferenceMemory {
  readonly batch: number;
  readonly seq: number;
  /** Bytes in which all layers store the keys and values of one token. */
  readonly cacheBytesPerToken: Bytes;
  /** Bytes of weights and cache on the GPU that needs most memory. */
  readonly weightBytes: Bytes;
  readonly cacheBytes: Bytes;
  readonly totalBytes: Bytes;
  /** The most tokens, summed over all sequences, whose keys and values fit on every GPU beside the weights. */
  readonly mostTokens: number;
  /** Whether weights and cache fit. Activations, which are not counted, need further memory. */
  readonly fits: boolean;
}

/**
 * Returns the memory of weights and cache of a layout's model. tp and pp divide one copy of the model; dp makes whole
 * copies, even if a training would shard them; ep divides experts. Throws: CONFIG for a model that generates no text, and for cp
 * above 1.
 */
export function inferenceMemory(layout: Layout, request: InferenceRequest = {}): InferenceMemory {
  const { batch, seq = layout.model.seq, weights, cache } = parse(request);
  check(layout, seq, weights);
  const perLayer = DTYPE_BYTES[cache] * cachedValues(layout.model, layout.tp);
  const places = Array.from({ length: layout.pp }, (_, place) => {
    const stage = stageOf(layout, place);
    const weightBytes =
      weights === 'nf4' ? nf4Bytes(layout.model, stage) : DTYPE_BYTES[weights] * stage.params;
    return { weightBytes, bytesPerToken: perLayer * stage.layers };
  });
  const tokens = batch * seq;
  const total = ({ weightBytes, bytesPerToken }: (typeof places)[number]) =>
    weightBytes + bytesPerToken * tokens;
  const fullest = places.reduce((most, place) => (total(place) > total(most) ? place : most));
  const room = places.map(
    ({ weightBytes, bytesPerToken }) => (reservableBytes(layout) - weightBytes) / bytesPerToken,
  );
  const mostTokens = Math.max(0, Math.floor(Math.min(...room)));
  return {
    batch,
    seq,
    cacheBytesPerToken: DTYPE_BYTES[cache] * cachedValues(layout.model, 1) * layout.model.layers,
    weightBytes: fullest.weightBytes,
    cacheBytes: fullest.bytesPerToken * tokens,
    totalBytes: total(fullest),
    mostTokens,
    fits: mostTokens >= tokens,
  };
}

/**
 * Returns the number of values that a layer stores of one token on one of `tp` ranks: a key and a value per head of keys and
 * values. Every rank has at least one such head. Latent attention stores one latent vector and one rotated key for all heads, on
 * every rank.
 * Source: Kwon et al. 2023, section 3; DeepSeek-V2 (arXiv 2405.04434), table 1.
 */
function cachedValues({ mla, kvHeads, headDim }: ModelShape, tp: number): number {
  return mla === null ? 2 * Math.max(kvHeads / tp, 1) * headDim : mla.keyRank + mla.ropeDim;
}

function parse(request: InferenceRequest): z.output<typeof inferenceSchema> {
  const parsed = inferenceSchema.safeParse(request);
  if (parsed.success) return parsed.data;
  const issues = toIssues(parsed.error.issues, request, keysOf(inferenceSchema));
  throw new ConfigError(
    `inference: ${issuesMessage(issues)}; write { batch: 8, seq: 4096, weights: 'bf16', cache: 'fp8' }`,
  );
}

function check({ model, cp, tp }: Layout, seq: number, weights: string): void {
  if (weights === 'nf4' && (tp > 1 || !hasQuantizedMatrices(model))) {
    throw new ConfigError(
      `inference: weights in NF4 are planned for a gpt or llama that has no experts, no latent attention and no tp, not for ${model.name} with tp ${tp}; ` +
        "give weights: 'bf16' or 'fp8'",
    );
  }
  if (!model.causal || model.logits === 0) {
    throw new ConfigError(
      `inference: ${model.name} generates no text token by token, so it has no cache of keys and values; plan a language model`,
    );
  }
  if (cp > 1) {
    throw new ConfigError(
      `inference: cp (${cp}) divides the sequences of a training; for inference, leave out cp; tp or pp can divide the model`,
    );
  }
  if (model.learnedPositions && seq > model.seq) {
    throw new ConfigError(
      `inference: seq is ${seq}, but ${model.name} has learned embeddings for ${model.seq} positions; give a seq of at most ${model.seq}`,
    );
  }
}

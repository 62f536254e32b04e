import { z } from 'zod';
import { llamaFfn, size } from '../config/families/kinds';
import {
  BIASES,
  type Bias,
  blockParams,
  type LatentAttention,
  type MixtureOfExperts,
  mlaSchema,
  moeSchema,
  withExperts,
} from './block-params';

/** The sizes of a planned model. Fields that a kind does not have are 0 or false. */
export interface ModelShape {
  readonly name: string;
  /** 'unknown': only the number of parameters was given; the rest is a usual shape of that size. */
  readonly kind: 'gpt' | 'llama' | 'dit' | 't5-encoder' | 'encoder' | 'unknown';
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  /** Heads of keys and values; fewer than heads under grouped-query attention. */
  readonly kvHeads: number;
  readonly headDim: number;
  /** Width of the feed-forward that one token visits, mean over the layers; the chosen and the shared experts count together. */
  readonly ffn: number;
  /** Whether the feed-forward layer has three matrices (SwiGLU, gated GELU) instead of two. */
  readonly gatedFfn: boolean;
  readonly vocab: number;
  /** Logits per token: vocab; 0 without a head and its loss (dit, t5-encoder). */
  readonly logits: number;
  /** Tokens of one sample. */
  readonly seq: number;
  /** Whether the output head shares the weight of the token embedding. */
  readonly tied: boolean;
  readonly causal: boolean;
  readonly bias: Bias;
  readonly norm: 'layer' | 'rms';
  /** Whether each position of `seq` has a learned embedding. */
  readonly learnedPositions: boolean;
  /** Tokens that every block's cross-attention reads (dit's text); 0: no cross-attention. */
  readonly crossTokens: number;
  /** Number of complete sets of blocks; each step uses one set (a dit's two experts, chosen by the timestep). */
  readonly experts: number;
  /** Experts within layers, of which each token visits topK; null: none. */
  readonly moe: MixtureOfExperts | null;
  /** Low-rank projections of attention (DeepSeek's latent attention); null: none. */
  readonly mla: LatentAttention | null;
  /** Parameters of routed experts, which expert parallelism divides; mean over the layers. */
  readonly expertParams: number;
  /** Parameters of one expert outside its blocks: embeddings (tokens, patches, time, text) and heads. */
  readonly outerParams: number;
  readonly layerParams: number;
  /** All parameters: experts × (layers × layerParams + outerParams), or the given number. */
  readonly params: number;
}

/** A shape as the user writes it; omitted fields follow from the kind. */
export const shapeSchema = z.strictObject({
  name: z.string().optional(),
  kind: z.enum(['gpt', 'llama', 'dit', 't5-encoder', 'encoder', 'unknown']).optional(),
  layers: size.optional(),
  dim: size.optional(),
  heads: size.optional(),
  kvHeads: size.optional(),
  headDim: size.optional(),
  ffn: size.optional(),
  gatedFfn: z.boolean().optional(),
  vocab: size.optional(),
  seq: size.optional(),
  tied: z.boolean().optional(),
  qkvBias: z.boolean().optional(),
  bias: z.enum(BIASES).optional(),
  qkNorm: z.boolean().optional(),
  /**
   * Number of norms of width dim in each layer. Default: 2; Gemma 2 has 4; layers with attention beside the feed-forward have 1.
   */
  numNorms: size.optional(),
  learnedPositions: z.boolean().optional(),
  headBias: z.boolean().optional(),
  moe: moeSchema.optional(),
  mla: mlaSchema.optional(),
  /** Number of segments that an encoder embeds (BERT). */
  segments: size.optional(),
  /** Number of values of one patch, if an encoder reads patches (ViT). */
  patchInputs: size.optional(),
  /** Width of the image's tokens that each block of a dit also reads (Wan2.1's i2v). */
  imageDim: size.optional(),
  experts: size.optional(),
  textLen: size.optional(),
  textDim: size.optional(),
  freqDim: size.optional(),
  inChannels: size.optional(),
  outChannels: size.optional(),
  relativeBuckets: size.optional(),
  audioLayers: z.array(z.int().min(0)).optional(),
  audioDim: size.optional(),
  audioTokens: size.optional(),
  params: z.number().positive().optional(),
});

export type ModelShapeInput = Readonly<z.output<typeof shapeSchema>>;

/** Fills in the omitted fields of a shape and counts its parameters. */
export function shapeOf(input: ModelShapeInput): ModelShape {
  if (input.layers === undefined || input.dim === undefined || input.kind === 'unknown') {
    return usualShape(input.params ?? 0, input);
  }
  const shape = KINDS[input.kind ?? 'gpt'](input, { layers: input.layers, dim: input.dim });
  const counted = Math.round(shape.experts * (shape.layers * shape.layerParams + shape.outerParams));
  return { ...shape, params: input.params ?? counted };
}

interface Size {
  readonly layers: number;
  readonly dim: number;
}

type Kind = Exclude<ModelShape['kind'], 'unknown'>;
type Described = Omit<ModelShape, 'params'>;

const KINDS: Readonly<Record<Kind, (input: ModelShapeInput, size: Size) => Described>> = {
  gpt: (input, size) => {
    const base = common(input, size, 'gpt', 4 * size.dim);
    const { bias = 'all', numNorms = 2, learnedPositions = true, headBias = false } = input;
    return {
      ...base,
      bias,
      norm: 'layer',
      learnedPositions,
      layerParams: blockParams(base, bias) + 2 * numNorms * base.dim,
      outerParams:
        tableParams(base) +
        (learnedPositions ? base.seq * base.dim : 0) +
        2 * base.dim +
        (headBias ? base.vocab : 0),
    };
  },
  llama: (input, size) => {
    const base = common(input, size, 'llama', llamaFfn(size.dim));
    const { bias = input.qkvBias === true ? 'qkv' : 'none', numNorms = 2, qkNorm = false } = input;
    const norms = numNorms * base.dim + (qkNorm ? 2 * base.headDim : 0);
    return {
      ...withExperts(base),
      bias,
      layerParams: blockParams(base, bias) + norms,
      outerParams: tableParams(base) + base.dim,
    };
  },
  // Layers without a head: BERT embeds tokens and segments and has a pooler; ViT reads patches and has a last norm.
  encoder: (input, size) => {
    const base = common(input, size, 'encoder', 4 * size.dim);
    const { dim, seq } = base;
    const { patchInputs, segments = 0 } = input;
    const inputs =
      patchInputs === undefined
        ? (base.vocab + segments) * dim + dim * (dim + 1)
        : (patchInputs + 1) * dim + dim;
    return {
      ...base,
      causal: false,
      bias: 'all',
      norm: 'layer',
      vocab: 0,
      logits: 0,
      learnedPositions: true,
      layerParams: blockParams(base, 'all') + 4 * dim,
      outerParams: inputs + seq * dim + 2 * dim,
    };
  },
  dit: (input, size) => {
    const base = common(input, size, 'dit', 4 * size.dim);
    const { dim } = base;
    return {
      ...base,
      causal: false,
      bias: 'all',
      vocab: 0,
      logits: 0,
      crossTokens: input.textLen ?? 512,
      // Self- and cross-attention with norms of q and k, the norm before cross-attention, six modulation vectors.
      // Keys and values of an image's tokens, with the norm of these keys.
      layerParams:
        blockParams(base, 'all') +
        4 * dim * (dim + 1) +
        4 * dim +
        2 * dim +
        6 * dim +
        (input.imageDim === undefined ? 0 : 2 * dim * (dim + 1) + dim),
      outerParams: ditOuterParams(dim, input),
    };
  },
  't5-encoder': (input, size) => {
    const base = common(input, size, 't5-encoder', 4 * size.dim);
    const buckets = (input.relativeBuckets ?? 32) * base.heads;
    return {
      ...base,
      causal: false,
      logits: 0,
      layerParams: blockParams(base, 'none') + 2 * base.dim + buckets,
      outerParams: base.vocab * base.dim + base.dim,
    };
  },
};

/** Returns a number of heads that divides dim, with about 128 elements per head. */
function usualHeads(dim: number): number {
  let heads = Math.max(1, Math.round(dim / 128));
  while (dim % heads !== 0) heads -= 1;
  return heads;
}

/** `seq`: GPT-2/3's 2048 in Megatron's studies; Llama 3's 8192; Wan2.2's 81 frames of 832 x 480: 21 x 30 x 52 patches. */
const USUAL = {
  gpt: { gatedFfn: false, tied: true, seq: 2048 },
  llama: { gatedFfn: true, tied: false, seq: 8192 },
  dit: { gatedFfn: false, tied: false, seq: 32_760 },
  't5-encoder': { gatedFfn: true, tied: true, seq: 512 },
  encoder: { gatedFfn: false, tied: true, seq: 512 },
} as const;

function common(input: ModelShapeInput, { layers, dim }: Size, kind: Kind, ffn: number): Described {
  const usual = USUAL[kind];
  const heads = input.heads ?? usualHeads(dim);
  return {
    name: input.name ?? `${kind} ${layers} x ${dim}`,
    kind,
    layers,
    dim,
    heads,
    kvHeads: input.kvHeads ?? heads,
    headDim: input.headDim ?? dim / heads,
    ffn: input.ffn ?? ffn,
    gatedFfn: input.gatedFfn ?? usual.gatedFfn,
    vocab: input.vocab ?? 0,
    logits: input.vocab ?? 0,
    seq: input.seq ?? usual.seq,
    tied: input.tied ?? usual.tied,
    causal: true,
    bias: 'none',
    norm: 'rms',
    learnedPositions: false,
    crossTokens: 0,
    experts: input.experts ?? 1,
    moe: input.moe ?? null,
    mla: input.mla ?? null,
    expertParams: 0,
    outerParams: 0,
    layerParams: 0,
  };
}

function tableParams({ vocab, dim, tied }: Described): number {
  return vocab * dim * (tied ? 1 : 2);
}

/**
 * Counts the parameters outside a dit's blocks: patches (1, 2, 2), two layers for the text, two layers and a projection to 6 dim
 * for the time, and a head. Source: Wan2.2's model.
 */
function ditOuterParams(dim: number, input: ModelShapeInput): number {
  const { inChannels = 16, outChannels = 16, textDim = 4096, freqDim = 256 } = input;
  const patches = dim * (inChannels * 4) + dim;
  const text = dim * textDim + dim + dim * dim + dim;
  const time = dim * freqDim + dim + dim * dim + dim + dim * 6 * dim + 6 * dim;
  const head = dim * outChannels * 4 + outChannels * 4 + 2 * dim;
  // Tokens of an image pass a norm, two layers and a norm. Source: Wan2.1's MLPProj.
  const { imageDim: image } = input;
  const images = image === undefined ? 0 : 2 * image + image * (image + 1) + (image + 1) * dim + 2 * dim;
  return patches + text + time + head + images + audioParams(dim, input);
}

/**
 * Counts the parameters of some blocks' attention to audio (four matrices, two norms), and of the layer that makes audio tokens.
 */
function audioParams(
  dim: number,
  { audioLayers = [], audioDim = 1024, audioTokens = 4 }: ModelShapeInput,
): number {
  if (audioLayers.length === 0) return 0;
  return audioLayers.length * (4 * dim * (dim + 1) + 2 * dim) + (audioDim + 1) * audioTokens * dim;
}

/** Width divided by depth. Published decoders of 80 x 8192, 96 x 12288, 40 x 5120 and 32 x 4096 have values of 102 to 128. */
const USUAL_ASPECT = 128;

/** Returns a decoder of usual proportions: 12 layers·dim² parameters, and an embedding of 50,304 tokens. */
function usualShape(params: number, input: ModelShapeInput): ModelShape {
  const vocab = input.vocab ?? 50_304;
  const paramsAt = (width: number): number =>
    12 * Math.max(1, Math.round(width / USUAL_ASPECT)) * width ** 2 + vocab * width;
  // Finds the largest multiple of 128 whose model has at most `params` parameters: steps double and are then halved.
  let [dim, step] = [128, 128];
  while (paramsAt(dim + step) <= params) step *= 2;
  for (; step >= 128; step /= 2) if (paramsAt(dim + step) <= params) dim += step;
  const layers = input.layers ?? Math.max(1, Math.round((params - vocab * dim) / (12 * dim ** 2)));
  const shape = KINDS.gpt({ ...input, vocab }, { layers, dim });
  const name = input.name ?? `${(params / 1e9).toPrecision(3)}B parameters`;
  return { ...shape, name, kind: 'unknown', params };
}

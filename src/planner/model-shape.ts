import { z } from 'zod';
import { llamaFfn, size } from '../config';
import {
  BIASES,
  type Bias,
  blockParams,
  type ExpertSizes,
  type LatentAttention,
  mlaSchema,
  moeSchema,
  withExperts,
} from './block-params';

/** The kinds of models that plans know, each a row of `KINDS`; 'encoder' is BERT and ViT, which no run builds. */
const PLANNED_KINDS = ['gpt', 'llama', 'dit', 't5-encoder', 'encoder'] as const;

type Kind = (typeof PLANNED_KINDS)[number];

export const SHAPE_KINDS = [...PLANNED_KINDS, 'unknown'] as const;

export type ShapeKind = (typeof SHAPE_KINDS)[number];

/** The sizes of a planned model. Fields that a kind does not have are 0 or false. */
export interface ModelShape {
  readonly name: string;
  /** 'unknown': only the number of parameters was given; the rest is a usual shape of that size. */
  readonly kind: ShapeKind;
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
  readonly moe: ExpertSizes | null;
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
  kind: z.enum(SHAPE_KINDS).optional(),
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
  /** Whether the sizes are those of the language model of a model that also reads images or sounds. */
  isTextOnly: z.boolean().optional(),
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
  const shape = describe(input, input.kind ?? 'gpt', { layers: input.layers, dim: input.dim });
  const counted = Math.round(shape.experts * (shape.layers * shape.layerParams + shape.outerParams));
  return { ...shape, params: input.params ?? counted };
}

interface Size {
  readonly layers: number;
  readonly dim: number;
}

type Described = Omit<ModelShape, 'params'>;

/** What a plan uses of a kind beside its sizes. */
interface KindTraits {
  /** Whether a layer consists of attention and a feed-forward, as in the runs to which constants were fitted. */
  readonly isPlain: boolean;
  /** Whether queries, keys and values have separate matrices in the programs' models, and every second matmul is saved. */
  readonly hasSeparateQkv: boolean;
  /** Whether PyTorch's layers compute rotary positions. */
  readonly isRotary: boolean;
  /** Whether the norms of eager PyTorch are chains of kernels in float32. */
  readonly hasChainedNorms: boolean;
  /** Whether the layers are Megatron-LM's under DeepSpeed. */
  readonly isMegatrons: boolean;
  /** Whether Megatron-LM has models of this kind. */
  readonly isOnMegatron: boolean;
}

/** A kind of models in plans. */
interface PlannedKind extends Partial<KindTraits> {
  /** Sizes if none are given. */
  readonly usual: Pick<ModelShape, 'gatedFfn' | 'tied' | 'seq'> & { readonly ffn: (dim: number) => number };
  /** Returns what differs from a decoder with RMSNorm and without biases; it has at least the numbers of parameters. */
  sizesOf(
    base: Described,
    input: ModelShapeInput,
  ): Partial<Described> & Pick<Described, 'layerParams' | 'outerParams'>;
}

const TRAITS: KindTraits = {
  isPlain: false,
  hasSeparateQkv: false,
  isRotary: false,
  hasChainedNorms: false,
  isMegatrons: false,
  isOnMegatron: true,
};

/** Returns what a plan uses of a model's kind beside its sizes. A model of which only a size is known has the layers of a GPT. */
export function traitsOf({ kind }: Pick<ModelShape, 'kind'>): KindTraits {
  return kind === 'unknown' ? { ...TRAITS, isMegatrons: true } : { ...TRAITS, ...KINDS[kind] };
}

const FOUR_TIMES = (dim: number): number => 4 * dim;

/** `seq`: GPT-2/3's 2048 in Megatron's studies; Llama 3's 8192; Wan2.2's 81 frames of 832 x 480: 21 x 30 x 52 patches. */
const KINDS: Readonly<Record<Kind, PlannedKind>> = {
  gpt: {
    usual: { gatedFfn: false, tied: true, seq: 2048, ffn: FOUR_TIMES },
    isPlain: true,
    isMegatrons: true,
    sizesOf: (base, { bias = 'all', numNorms = 2, learnedPositions = true, headBias = false }) => ({
      bias,
      norm: 'layer',
      learnedPositions,
      layerParams: blockParams(base, bias) + 2 * numNorms * base.dim,
      outerParams:
        tableParams(base) +
        (learnedPositions ? base.seq * base.dim : 0) +
        2 * base.dim +
        (headBias ? base.vocab : 0),
    }),
  },
  llama: {
    usual: { gatedFfn: true, tied: false, seq: 8192, ffn: llamaFfn },
    isPlain: true,
    hasSeparateQkv: true,
    isRotary: true,
    hasChainedNorms: true,
    sizesOf: (base, { qkvBias, bias = qkvBias === true ? 'qkv' : 'none', numNorms = 2, qkNorm = false }) => ({
      ...withExperts(base),
      bias,
      layerParams: blockParams(base, bias) + numNorms * base.dim + (qkNorm ? 2 * base.headDim : 0),
      outerParams: tableParams(base) + base.dim,
    }),
  },
  dit: {
    usual: { gatedFfn: false, tied: false, seq: 32_760, ffn: FOUR_TIMES },
    isRotary: true,
    isOnMegatron: false,
    sizesOf: (base, input) => ({
      ...WITHOUT_HEAD,
      vocab: 0,
      bias: 'all',
      crossTokens: input.textLen ?? 512,
      // Self- and cross-attention with norms of q and k, the norm before cross-attention, six modulation vectors.
      // Keys and values of an image's tokens, with the norm of these keys.
      layerParams:
        blockParams(base, 'all') +
        4 * base.dim * (base.dim + 1) +
        4 * base.dim +
        2 * base.dim +
        6 * base.dim +
        (input.imageDim === undefined ? 0 : 2 * base.dim * (base.dim + 1) + base.dim),
      outerParams: ditOuterParams(base.dim, input),
    }),
  },
  't5-encoder': {
    usual: { gatedFfn: true, tied: true, seq: 512, ffn: FOUR_TIMES },
    hasSeparateQkv: true,
    sizesOf: (base, { relativeBuckets = 32 }) => ({
      ...WITHOUT_HEAD,
      layerParams: blockParams(base, 'none') + 2 * base.dim + relativeBuckets * base.heads,
      outerParams: base.vocab * base.dim + base.dim,
    }),
  },
  // BERT embeds tokens and segments and has a pooler; ViT reads patches and has a last norm.
  encoder: {
    usual: { gatedFfn: false, tied: true, seq: 512, ffn: FOUR_TIMES },
    sizesOf: (base, { patchInputs, segments = 0 }) => {
      const { dim, seq, vocab } = base;
      const inputs =
        patchInputs === undefined
          ? (vocab + segments) * dim + dim * (dim + 1)
          : (patchInputs + 1) * dim + dim;
      return {
        ...WITHOUT_HEAD,
        vocab: 0,
        bias: 'all',
        norm: 'layer',
        learnedPositions: true,
        layerParams: blockParams(base, 'all') + 4 * dim,
        outerParams: inputs + seq * dim + 2 * dim,
      };
    },
  },
};

/** Layers whose positions read all others, and which have no head and no loss. */
const WITHOUT_HEAD = { causal: false, logits: 0 } as const;

/** Returns a number of heads that divides dim, with about 128 elements per head. */
function usualHeads(dim: number): number {
  let heads = Math.max(1, Math.round(dim / 128));
  while (dim % heads !== 0) heads -= 1;
  return heads;
}

/** Returns a shape with the sizes of its kind. */
function describe(input: ModelShapeInput, kind: Kind, { layers, dim }: Size): Described {
  const { usual, sizesOf } = KINDS[kind];
  const heads = input.heads ?? usualHeads(dim);
  const base: Described = {
    name: input.name ?? `${kind} ${layers} x ${dim}`,
    kind,
    layers,
    dim,
    heads,
    kvHeads: input.kvHeads ?? heads,
    headDim: input.headDim ?? dim / heads,
    ffn: input.ffn ?? usual.ffn(dim),
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
  return { ...base, ...sizesOf(base, input) };
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
  const shape = describe({ ...input, vocab }, 'gpt', { layers, dim });
  const name = input.name ?? `${(params / 1e9).toPrecision(3)}B parameters`;
  return { ...shape, name, kind: 'unknown', params };
}

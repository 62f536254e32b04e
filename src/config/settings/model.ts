import { z } from 'zod';
import { listed } from '../../core';
import { kindOf, MODEL_KINDS } from '../families/families';
import { type AttentionKind, type BuiltInModel, KIND_SCHEMAS, size } from '../families/kinds';
import { MODEL_NAMES, type ModelName, modelNamed, PUBLISHED_NAMES, type PublishedName } from '../model-names';
import { NAMED_MODELS } from '../named-models';
import { isPretrained, type PretrainedInput, unreadReason } from '../pretrained';
import { isPythonModel } from '../python-model';
import type { Planned } from '../setting';

/** A user's own model: a function or a class that `job.train` got. */
export const ownSchema = z.strictObject({ kind: z.literal('own') });

/** A class of the user's own in Python, which ranks of PyTorch make by `class(**options)`. */
const pythonSchema = z.strictObject({
  kind: z.literal('python'),
  python: z.string().min(1),
  class: z.string().min(1),
  options: z.record(z.string(), z.json()).default({}),
  batches: z.string().min(1).optional(),
  loss: z.string().min(1).optional(),
  vocab: size.default(256),
  seq: size,
});

/** Kinds of models, each with the published model whose results it reproduces. */
export const KINDS: Readonly<Record<string, { readonly schema: z.ZodObject; readonly says: string }>> = {
  ...MODEL_KINDS,
  python: {
    schema: pythonSchema,
    says: "a class of your own in Python, which only engine 'torch' trains; `kind` may be left out (clusters.md)",
  },
};

const kindSchema = z.discriminatedUnion('kind', [...KIND_SCHEMAS, ownSchema, pythonSchema]);

const nameOrSizes = z.union([z.enum(MODEL_NAMES), kindSchema]);

/** A model like a known one, except the given sizes: { like: 'llama3-8b', seq: 2048 }. */
export interface LikeInput {
  readonly like: string;
  readonly seq?: number;
  /** Frames, rows and columns of the latent videos of a dit. */
  readonly latent?: [number, number, number];
  readonly attention?: AttentionKind;
  readonly layers?: number;
  readonly dim?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly ffn?: number;
  readonly vocab?: number;
  readonly tied?: boolean;
}

/** A class in Python; `seq` is the length of its rows of tokens, so a model with `batches` needs none. */
type PythonInput = Omit<z.input<typeof pythonSchema>, 'kind' | 'seq'> & { readonly seq?: number };

/**
 * A model by name, by its sizes, like a known one, by a folder in Hugging Face's format: { from: './llama' }, or by a class of
 * Python. The schema reads no files: `readModelFiles` has put a folder's sizes in place of the folder.
 */
export const modelSchema = z.preprocess((value, context) => {
  if (typeof value === 'string') return modelNamed(value) ?? value;
  if (isPythonModel(value)) return { ...('batches' in value ? { seq: 1 } : {}), ...value, kind: 'python' };
  if (isLike(value)) return sizesLike(value);
  if (!isPretrained(value)) return value;
  context.addIssue({ code: 'custom', message: unreadReason(value), input: value });
  return z.NEVER;
}, nameOrSizes) as unknown as z.ZodType<
  z.output<typeof nameOrSizes>,
  z.input<typeof nameOrSizes> | LikeInput | PretrainedInput | PythonInput
>; // the types that `modelSchema` accepts

function isLike(value: unknown): value is { readonly like: unknown } {
  return typeof value === 'object' && value !== null && 'like' in value;
}

/** Returns the sizes of the known model under the given sizes; a value whose model is not known stays as it is. */
function sizesLike(value: { readonly like: unknown }): object {
  const known = typeof value.like === 'string' ? modelNamed(value.like) : null;
  return known === null ? value : { ...NAMED_MODELS[known], ...value, like: known };
}

/** Returns the published model that a setting `model` names, or is like; null: the model is not a published one. */
export function publishedModelName(model: unknown): PublishedName | null {
  const name = isLike(model) ? model.like : model;
  const known = typeof name === 'string' ? modelNamed(name) : null;
  return PUBLISHED_NAMES.find((published) => published === known) ?? null;
}

/** Sizes of a sample, which do not change the weights of a llama or a dit. */
const OF_SAMPLE: readonly string[] = ['seq', 'latent', 'attention', 'like'];

/** Returns the model whose weights a model has: itself, or one like which it is except for the sizes of its samples. */
export function weightsOf(model: ModelSetting): ModelName | null {
  if (typeof model === 'string') return model;
  const name = 'like' in model && model.like !== undefined ? modelNamed(model.like) : null;
  if (name === null || kindOf(model)?.learnsPositions) return null;
  const known: Readonly<Record<string, unknown>> = { ...modelShape({ model: name }) };
  const isSame = Object.entries(model).every(
    ([key, value]) => OF_SAMPLE.includes(key) || JSON.stringify(value) === JSON.stringify(known[key]),
  );
  return isSame ? name : null;
}

export type ModelConfig = z.output<typeof kindSchema>;
/** The kinds of a user's own models. Only ranks know the parameters and the work of these models. */
type OwnKind = 'own' | 'python';
export type ModelSetting = z.output<typeof modelSchema>;

/** Returns the sizes of a model that is given by name or by its sizes. */
export function modelShape({ model }: { readonly model: ModelSetting }): ModelConfig {
  return typeof model === 'string' ? kindSchema.parse(NAMED_MODELS[model]) : model;
}

/** Whether a model is the user's own. */
export function isOwnModel(shape: ModelConfig): shape is Extract<ModelConfig, { kind: OwnKind }> {
  return shape.kind === 'own' || shape.kind === 'python';
}

/** Returns the number of positions of one sample: tokens, or patches of a video. */
export function positionsOf(shape: BuiltInModel): number {
  if (!('latent' in shape)) return shape.seq;
  return shape.latent.reduce((product, extent, axis) => product * (extent / (shape.patch[axis] ?? 1)), 1);
}

type KeyOf<Shape> = Shape extends unknown ? keyof Shape : never;

interface ModelPart {
  readonly says: string;
  readonly form?: string;
  readonly planned: Planned<unknown>;
}

/** Returns names as a choice: "'gpt', 'moe' or 'llama'". */
export function anyOf(names: readonly string[]): string {
  return listed(
    names.map((name) => `'${name}'`),
    'or',
  );
}

/** What a model's settings mean, and how a plan uses them. */
export const MODEL_PARTS: Readonly<Record<KeyOf<ModelConfig>, ModelPart>> = {
  kind: read(
    'one of the kinds above; a plan refuses moe, because it cannot predict its layers',
    anyOf(Object.keys(KINDS)),
  ),
  from: values(
    "a folder in Hugging Face's format (GPT-2, Llama, Mistral, Qwen2, Wan, also in diffusers' form); its config.json gives the sizes, its weights are the initial values",
  ),
  like: values(
    "a model's name, whose sizes this model has, except those given beside it",
    "{ like: 'llama3-8b', seq: 2048 }",
  ),
  className: values(
    "for a dit: savePretrained writes the parameter names of this class (_class_name in config.json): WanModel of Wan's own code, or the class of diffusers; default: the class in the model's folder (model.from), else WanModel",
    "'WanModel' or 'WanTransformer3DModel'",
  ),
  layers: read('number of blocks'),
  dim: read('width of the residual stream (hidden size)'),
  heads: read('number of attention heads; dim must be a multiple of this number'),
  kvHeads: read('number of key and value heads; default: heads'),
  attnDim: read('width of all heads together; default: dim'),
  ffn: read(
    'width within the feed-forward layer; default: 4 · dim; for llama 8/3 · dim, rounded up to a multiple of 256',
  ),
  vocab: read('tokens in the vocabulary; a run on text needs at least 256'),
  seq: read('tokens per sequence'),
  tied: read('whether the output head shares the weight of the token embedding'),
  qkvBias: read('whether queries, keys and values have a bias (Qwen)'),
  experts: read(
    'experts per block; for a dit, whole transformers: the timestep chooses one of them per step',
  ),
  router: read(
    "how a moe chooses experts: 'temperature' (one, by hard Gumbel-softmax), 'topk' (Mixtral), 'switch' (one, with a capacity), 'expert-choice'",
  ),
  topK: read(
    "experts per token of a moe (Megatron's moe_router_topk); default: 2 for 'topk' and 'expert-choice', else 1",
  ),
  capacityFactor: read(
    "an expert takes at most this factor times the mean number of tokens per expert, and drops the rest (Megatron's moe_expert_capacity_factor); null: no limit; default: 1.25 for 'switch', 1 for 'expert-choice', else null",
  ),
  auxLossWeight: values(
    "factor of the auxiliary loss that balances experts (Megatron's moe_aux_loss_coeff with moe_router_load_balancing_type aux_loss)",
  ),
  biasUpdateRate: values(
    "by how much the bias of each expert's score changes after a step, to balance experts without a loss (Megatron's moe_router_bias_update_rate)",
  ),
  attention: read(
    "'flash' computes attention in blocks, without the matrix of its weights; default: 'eager'",
  ),
  latent: read('frames, rows and columns of a latent video', 'frames, rows and columns, as [5, 8, 8]'),
  patch: read(
    'frames, rows and columns of the video that make one position',
    'frames, rows and columns, as [1, 2, 2]',
  ),
  inChannels: read('channels of the input; more than outChannels if an image is given too'),
  outChannels: read('channels of the latent video'),
  freqDim: read("width of the timestep's embedding"),
  textDim: read("width of the text's embedding"),
  textLen: read('number of positions of the text'),
  relativeBuckets: read('number of buckets of relative positions; each bucket has a bias'),
  relativeDistance: values('all relative positions of at least this distance share a bucket'),
  ropeTheta: values('base of the rotary frequencies (Su et al. 2021); 500000 in Llama 3'),
  normEps: values('epsilon of the norms'),
  audioLayers: read(
    'indices of the blocks that attend to audio (Wan2.2-S2V); each latent frame has one set of audio features; []: none',
    '[0, 4, 8]',
  ),
  audioDim: read("width of the audio's features of a frame"),
  audioTokens: read('number of positions of the audio of a frame'),
  boundary: values('the high-noise expert runs at this share of the largest timestep and above it'),
  python: read(
    "a file of Python, as './net.py' (relative paths begin in the notebook's folder), or a package of the ranks' Python, as 'transformers'",
  ),
  class: read(
    "the class, or a function, as 'Net' or 'AutoModelForCausalLM.from_pretrained'; it makes a torch.nn.Module whose forward takes tokens [batch, seq] and returns logits [batch, seq, vocab], or an object that has them as `logits`",
  ),
  options: read('keyword arguments of the class'),
  batches: read(
    "a function of the file, as 'batches', that returns microbatch `index` of data-parallel rank `rank`: batches(rank, index); with `loss` a pair (inputs, targets), else only inputs. Inputs are a tensor, or tensors in a dict (by name) or a tuple (in order), which forward gets; `data`, `batch`, `seq` and `vocab` then have no effect; default: rows of tokens from `data`",
  ),
  loss: read(
    "a function of the file, as 'loss', or of torch.nn.functional, as 'mse_loss', that gets forward's result and the targets; default: with `batches`, forward returns the loss (a scalar tensor, or its field `loss`), else the cross-entropy of tokens",
  ),
};

function read(says: string, form?: string): ModelPart {
  return { says, ...(form === undefined ? {} : { form }), planned: { reads: true } };
}

function values(says: string, form?: string): ModelPart {
  return { ...read(says, form), planned: { ignored: 'the work does not depend on the value' } };
}

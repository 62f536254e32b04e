import type { Tag } from '../../../core';
import * as tf from '../../../core/tf';
import { tfjsState } from '../tfjs-state';
import { aliasOf, offsetOf, ownsBufferAlone, present, type WasmContext } from '../wasm-context';

/** Names of the engine's own kernels in tfjs's registry. */
export const FUSED = {
  linear: 'ShardlabLinear',
  layerNorm: 'ShardlabLayerNorm',
  layerNormGrad: 'ShardlabLayerNormGrad',
  gelu: 'ShardlabGelu',
  geluGrad: 'ShardlabGeluGrad',
  causalSoftmax: 'ShardlabCausalSoftmax',
  softmaxGrad: 'ShardlabSoftmaxGrad',
  causalAttention: 'ShardlabCausalAttention',
  causalAttentionGrad: 'ShardlabCausalAttentionGrad',
  flashAttention: 'FlashAttention',
  flashAttentionGrad: 'FlashAttentionGrad',
  crossEntropy: 'ShardlabCrossEntropy',
  crossEntropyGrad: 'ShardlabCrossEntropyGrad',
  crossEntropyInPlace: 'ShardlabCrossEntropyInPlace',
  scaledGrad: 'ShardlabScaledGrad',
  embedding: 'ShardlabEmbedding',
  embeddingGrad: 'ShardlabEmbeddingGrad',
  dropout: 'ShardlabDropout',
  conv2d: 'ShardlabConv2d',
  conv2dInputGrad: 'ShardlabConv2dInputGrad',
  conv2dFilterGrad: 'ShardlabConv2dFilterGrad',
  averagePool2d: 'ShardlabAveragePool2d',
  averagePool2dGrad: 'ShardlabAveragePool2dGrad',
  maxPool2d: 'ShardlabMaxPool2d',
  maxPool2dGrad: 'ShardlabMaxPool2dGrad',
  channelMoments: 'ShardlabChannelMoments',
  channelSums: 'ShardlabChannelSums',
  channelProducts: 'ShardlabChannelProducts',
  channelAffine: 'ShardlabChannelAffine',
  channelGrad: 'ShardlabChannelGrad',
} as const;

export type FusedName = (typeof FUSED)[keyof typeof FUSED];

const NAMES: ReadonlySet<string> = new Set(Object.values(FUSED));

/**
 * Whether the kernel is one of the engine's own. In the gradients of these kernels, no kernel reads a consumable tensor except
 * the kernel that may overwrite it.
 */
export function isFusedKernel(kernelName: string): boolean {
  return NAMES.has(kernelName);
}

const FIRST_ONLY: ReadonlySet<string> = new Set([
  FUSED.causalAttention,
  FUSED.crossEntropy,
  FUSED.layerNorm,
  FUSED.maxPool2d,
]);

/** Whether a kernel's gradient reads only the gradient of its first output, because the other outputs are only saved values. */
export function readsFirstGradientOnly(kernelName: string): boolean {
  return FIRST_ONLY.has(kernelName);
}

/** Whether the current engine has the kernel; otherwise the operation is composed of tfjs's operations. */
export function hasFused(name: FusedName): boolean {
  // tfjs returns undefined for an unknown kernel; its types do not allow this.
  return (tf.getKernel(name, tf.getBackend()) as tf.KernelConfig | undefined) !== undefined;
}

/** Runs a fused kernel through tfjs, which records it on the tape; returns its outputs. */
export function runFused(
  name: FusedName,
  inputs: Readonly<Record<string, tf.Tensor>>,
  attrs: tf.NamedAttrMap = {},
): tf.Tensor[] {
  const run = (): tf.Tensor | tf.Tensor[] => tf.engine().runKernel(name, inputs as tf.NamedTensorMap, attrs);
  // A tape saves tensors only within a tidy scope. Each of tfjs's own operations opens a scope.
  const outputs = tfjsState().scopeStack.length > 0 ? run() : tf.tidy(name, run);
  return Array.isArray(outputs) ? outputs : [outputs];
}

/** Runs a fused kernel, returns its first output, and disposes the other outputs, which only the gradient uses. */
export function runForFirst(
  name: FusedName,
  inputs: Readonly<Record<string, tf.Tensor>>,
  attrs: tf.NamedAttrMap = {},
): tf.Tensor {
  const [first, ...others] = runFused(name, inputs, attrs);
  for (const output of others) output.dispose();
  return first as tf.Tensor; // every kernel has at least one output
}

/** Names of the inputs and outputs that forward saves for the gradient's kernel; null stands for an output that is not saved. */
interface Saved {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly (string | null)[];
  /** The name under which the gradient's kernel gets the gradient of the first output. Default 'dy'. */
  readonly dy?: string;
}

/** Registers a fused kernel's gradient: the kernel `gradient`, whose outputs are the gradients of the inputs `of`. */
export function differentiateBy(
  kernelName: FusedName,
  gradient: FusedName,
  of: readonly string[],
  { inputs = [], outputs = [], dy = 'dy' }: Saved,
): void {
  const names = [...inputs, ...outputs.filter((name) => name !== null)];
  tf.registerGradient({
    kernelName,
    inputsToSave: [...inputs],
    outputsToSave: outputs.map((name) => name !== null),
    gradFunc: (dys, saved, attrs) => {
      const known = Object.fromEntries(names.map((name, i) => [name, present(saved[i])]));
      const gradients = runFused(
        gradient,
        { ...known, [dy]: present([dys].flat()[0]) },
        attrs as tf.NamedAttrMap,
      );
      return Object.fromEntries(of.map((name, i) => [name, () => present(gradients[i])]));
    },
  });
}

/**
 * Returns a buffer for a result of the shape of `like`: `like`'s own buffer if no other code needs the values of `like`, else a
 * new buffer.
 */
export function outputLike(
  context: WasmContext,
  like: tf.TensorInfo,
): { info: tf.TensorInfo; offset: number } {
  const info =
    isConsumable(like) && ownsBufferAlone(context, like)
      ? aliasOf(context, like, like.shape)
      : context.backend.makeOutput(like.shape, like.dtype);
  return { info, offset: offsetOf(context, info) };
}

/** Allocates a temporary buffer of `size` floats, runs `work` with it (not in a dry run), and frees it. */
export function withScratch(
  context: WasmContext,
  size: number,
  work: (scratch: tf.TensorInfo) => void,
): void {
  const { table, backend } = context;
  const tag: Tag = { cause: 'temp', module: table.currentTag.module };
  const scratch = table.tagged(tag, () => backend.makeOutput([size], 'float32'));
  if (context.hasValues) work(scratch);
  backend.disposeData(scratch.dataId);
}

const CONSUMABLE = Symbol('the values are not used again');

interface Marked {
  [CONSUMABLE]?: true;
}

/**
 * Marks the next operation as the last use of the tensor: if no other tensor shares the buffer, the operation's kernel may
 * overwrite the values with its result.
 */
export function markConsumable(tensor: tf.Tensor): void {
  (tensor as Marked)[CONSUMABLE] = true;
}

/** Whether `markConsumable` marked the tensor. */
function isConsumable(info: tf.TensorInfo): boolean {
  return (info as Marked)[CONSUMABLE] === true;
}

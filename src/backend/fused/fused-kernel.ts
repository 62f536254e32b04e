import * as tf from '../../core/tf';
import { aliasOf, given, isSoleOwner, offsetOf, type WasmContext } from '../wasm-context';

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
} as const;

export type FusedName = (typeof FUSED)[keyof typeof FUSED];

const NAMES: ReadonlySet<string> = new Set(Object.values(FUSED));

/** True for the engine's own kernels: their gradients read a consumable tensor once, in the kernel that may overwrite it. */
export function isFusedKernel(kernelName: string): boolean {
  return NAMES.has(kernelName);
}

const FIRST_ONLY: ReadonlySet<string> = new Set([FUSED.causalAttention, FUSED.crossEntropy, FUSED.layerNorm]);

/** True for kernels with several outputs of which only the first is a result, so that only its gradient is read. */
export function readsFirstGradientOnly(kernelName: string): boolean {
  return FIRST_ONLY.has(kernelName);
}

/** True when the current engine has the kernel; otherwise the operation is composed of plain operations. */
export function hasFused(name: FusedName): boolean {
  // tfjs returns undefined for an unknown kernel; its types do not say so.
  return (tf.getKernel(name, tf.getBackend()) as tf.KernelConfig | undefined) !== undefined;
}

/** Runs a fused kernel through tfjs, which records it; every output is a separate tensor. */
export function runFused(
  name: FusedName,
  inputs: Readonly<Record<string, tf.Tensor>>,
  attrs: tf.NamedAttrMap = {},
): tf.Tensor[] {
  const outputs = tf.engine().runKernel<tf.Tensor | tf.Tensor[]>(name, inputs as tf.NamedTensorMap, attrs);
  return Array.isArray(outputs) ? outputs : [outputs];
}

/** Runs a fused kernel and keeps its first output; the gradient uses the others. */
export function runForFirst(
  name: FusedName,
  inputs: Readonly<Record<string, tf.Tensor>>,
  attrs: tf.NamedAttrMap = {},
): tf.Tensor {
  const [first, ...others] = runFused(name, inputs, attrs);
  for (const other of others) other.dispose();
  return first as tf.Tensor; // every kernel has an output
}

/** The names under which a gradient's kernel gets what forward saved; null: an output that is not saved. */
interface Saved {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly (string | null)[];
  /** Its name for the gradient of the first output. Default 'dy'. */
  readonly dy?: string;
}

/** Registers a fused kernel's gradient: one kernel, whose outputs are the gradients of the inputs `of`. */
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
      const known = Object.fromEntries(names.map((name, i) => [name, given(saved[i])]));
      const gradients = runFused(
        gradient,
        { ...known, [dy]: given([dys].flat()[0]) },
        attrs as tf.NamedAttrMap,
      );
      return Object.fromEntries(of.map((name, i) => [name, () => given(gradients[i])]));
    },
  });
}

/**
 * The buffer for a result of `like`'s shape: `like`'s own buffer if its values are no longer needed, else a new one.
 */
export function outputLike(
  context: WasmContext,
  like: tf.TensorInfo,
): { info: tf.TensorInfo; offset: number } {
  const info =
    isConsumable(like) && isSoleOwner(context, like)
      ? aliasOf(context, like, like.shape)
      : context.backend.makeOutput(like.shape, like.dtype);
  return { info, offset: offsetOf(context, info) };
}

const CONSUMABLE = Symbol('its holder has no more use for the values');

interface Marked {
  [CONSUMABLE]?: true;
}

/**
 * Marks the next operation as the tensor's last use, so that a kernel may overwrite the values with its result if no
 * other tensor is a view of them.
 */
export function markConsumable(tensor: tf.Tensor): void {
  (tensor as Marked)[CONSUMABLE] = true;
}

/** True for a tensor whose values may be overwritten. */
function isConsumable(info: tf.TensorInfo): boolean {
  return (info as Marked)[CONSUMABLE] === true;
}

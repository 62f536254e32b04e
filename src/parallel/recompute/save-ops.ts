import { FUSED, hasFused } from '../../backend/fused/fused-kernel';
import { nearest } from '../../config/nearest';
import { ConfigError } from '../../core/errors';
import * as tf from '../../core/tf';

/** Operations of model code: the kernel of each, and the kernels that replace it on an engine without that kernel. */
const OPERATIONS: ReadonlyMap<
  string,
  { readonly fused: (typeof FUSED)[keyof typeof FUSED]; readonly parts: readonly string[] }
> = new Map([
  ['linear', { fused: FUSED.linear, parts: ['matMul'] }],
  ['causalAttention', { fused: FUSED.causalAttention, parts: ['matMul', 'causalSoftmax'] }],
  ['flashAttention', { fused: FUSED.flashAttention, parts: ['matMul', 'Softmax'] }],
  ['causalSoftmax', { fused: FUSED.causalSoftmax, parts: ['Softmax'] }],
  ['layerNorm', { fused: FUSED.layerNorm, parts: [] }],
  ['gelu', { fused: FUSED.gelu, parts: [] }],
  ['embedding', { fused: FUSED.embedding, parts: ['GatherV2'] }],
]);

/** tfjs's matmul kernels, under one name. */
const PRODUCTS = ['BatchMatMul', '_FusedMatMul'];

/** Kernels whose results are views or lists, so there is nothing to save. */
const NOT_SAVED: ReadonlySet<string> = new Set(['Identity', 'Reshape', 'ExpandDims', 'Unpack', 'SplitV']);

/**
 * The operations that 'selective' saves because they cost most to run again: matmuls and attention.
 * Source: torchtitan's _save_list (mm, scaled dot-product attention).
 */
export const EXPENSIVE_OPS: readonly string[] = [
  'linear',
  'causalAttention',
  'flashAttention',
  'matMul',
  'Conv2D',
  'FusedConv2D',
];

/** The engine's kernels for names of operations or kernels. Throws: CONFIG naming the nearest one for a name that it does not know. */
export function kernelsOf(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.flatMap(kernelsOfOne));
}

function kernelsOfOne(name: string): readonly string[] {
  if (name === 'matMul') return PRODUCTS;
  const operation = OPERATIONS.get(name);
  if (operation !== undefined)
    return hasFused(operation.fused) ? [operation.fused] : operation.parts.flatMap(kernelsOfOne);
  const known = knownKernels();
  if (known.includes(name)) return [name];
  const operations = [...OPERATIONS.keys(), 'matMul'];
  const near = nearest(name, [...operations, ...known]);
  throw new ConfigError(
    `activationCheckpointing.saveOps: '${name}' is not an operation whose result can be saved` +
      `${near === undefined ? '' : `; did you mean '${near}'?`}; there are ${operations.join(', ')}, and the kernels of the ` +
      `engine (${known.slice(0, 3).join(', ')}, … ${known.length} in all)`,
  );
}

function knownKernels(): string[] {
  return tf
    .getKernelsForBackend(tf.getBackend())
    .map(({ kernelName }) => kernelName)
    .filter((kernelName) => !NOT_SAVED.has(kernelName))
    .sort();
}

import type { Bytes } from '../../core/units';
import { blockParams } from '../block-params';
import type { ModelShape } from '../model-shape';

/**
 * Bytes of a parameter in NF4 with double quantization, 4.127 bits: 4 bits, an 8-bit scale for each 64 parameters, and a float32
 * scale for each 256 of these scales. Source: Dettmers et al. 2023 (QLoRA), section 3; bitsandbytes, functional.py.
 */
const NF4_BYTES = 1 / 2 + 1 / 64 + 4 / (64 * 256);

/** Embeddings, norms, biases and head stay in 16 bits. Source: transformers, get_keys_to_not_convert; bitsandbytes' Linear4bit. */
const OTHER_BYTES = 2;

/** Whether all matrices of a model's layers are layers of kind Linear whose sizes are known. */
export function hasQuantizedMatrices({ kind, moe, mla }: ModelShape): boolean {
  return (kind === 'gpt' || kind === 'llama') && moe === null && mla === null;
}

/** Returns the bytes of some layers and the parameters outside them, if the layers' matrices are in NF4. */
export function nf4Bytes(
  model: ModelShape,
  { layers, params }: { readonly layers: number; readonly params: number },
): Bytes {
  const matrices = layers * blockParams(model, 'none');
  return NF4_BYTES * matrices + OTHER_BYTES * (params - matrices);
}

/** Returns the bytes of the largest matrix in 16 bits: bitsandbytes makes it whole for each matmul (autograd/_functions.py). */
export function dequantizedBytes({ dim, ffn, heads, headDim }: ModelShape): Bytes {
  return OTHER_BYTES * dim * Math.max(ffn, heads * headDim);
}

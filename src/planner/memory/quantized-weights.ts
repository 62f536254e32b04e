import type { Bytes } from '../../core';
import { blockParams } from '../block-params';
import { type ModelShape, traitsOf } from '../model-shape';

/**
 * Bytes of a parameter in NF4 with double quantization, 4.127 bits: 4 bits, an 8-bit scale for each 64 parameters, and a float32
 * scale for each 256 of these scales. Source: Dettmers et al. 2023 (QLoRA), section 3; bitsandbytes, functional.py.
 */
const NF4_BYTES = 1 / 2 + 1 / 64 + 4 / (64 * 256);

/**
 * Embeddings, norms, biases and head stay in 16 bits. Source: transformers, get_keys_to_not_convert; bitsandbytes' Linear4bit.
 */
const OTHER_BYTES = 2;

/** Whether every matrix of a model's layers is the weight of a Linear whose size is known. */
export function hasQuantizedMatrices(model: ModelShape): boolean {
  return traitsOf(model).isPlain && model.moe === null && model.mla === null;
}

/** Returns the bytes of `params` parameters if the matrices of `layers` layers are in NF4, and all others are in 16 bits. */
export function nf4Bytes(
  model: ModelShape,
  { layers, params }: { readonly layers: number; readonly params: number },
): Bytes {
  const matrices = layers * blockParams(model, 'none');
  return NF4_BYTES * matrices + OTHER_BYTES * (params - matrices);
}

/**
 * Returns the bytes of the largest matrix in 16 bits: bitsandbytes converts a whole matrix for each matmul
 * (autograd/_functions.py).
 */
export function dequantizedBytes({ dim, ffn, heads, headDim }: ModelShape): Bytes {
  return OTHER_BYTES * dim * Math.max(ffn, heads * headDim);
}

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ShardlabError } from '../../../core';
import type { Sgemm } from '../blas';

/** A tuple of N numbers: a kernel's arguments, which are byte offsets, sizes and factors. */
type Numbers<N extends number, Known extends number[] = []> = Known['length'] extends N
  ? Known
  : Numbers<N, [...Known, number]>;

type Kernel<N extends number, Result = void> = (...values: Numbers<N>) => Result;

/**
 * The functions of kernels/assembly with their numbers of arguments. Pointers are byte offsets on the backend's heap. The files
 * in kernels/assembly describe the functions and their arguments.
 */
export interface FusedKernels {
  readonly addScaled: Kernel<4>;
  readonly scale: Kernel<3>;
  readonly fill: Kernel<3>;
  readonly exp: Kernel<3>;
  readonly tanh: Kernel<3>;
  readonly log: Kernel<3>;
  readonly sqrt: Kernel<3>;
  readonly rsqrt: Kernel<3>;
  readonly power: Kernel<4>;
  readonly sumOfSquares: Kernel<2, number>;
  readonly sums: Kernel<6>;
  readonly maxima: Kernel<5>;
  readonly minima: Kernel<5>;
  readonly softmax: Kernel<4>;
  readonly maximum: Kernel<6>;
  readonly minimum: Kernel<6>;
  readonly prelu: Kernel<6>;
  readonly clamp: Kernel<5>;
  readonly sign: Kernel<3>;
  readonly adamW: Kernel<16>;
  readonly adamW8bit: Kernel<21>;
  readonly lion: Kernel<11>;
  readonly sgd: Kernel<9>;
  readonly layerNorm: Kernel<8>;
  readonly layerNormGrad: Kernel<11>;
  readonly gelu: Kernel<3>;
  readonly geluGrad: Kernel<4>;
  readonly geluExact: Kernel<3>;
  readonly geluExactGrad: Kernel<4>;
  readonly causalSoftmax: Kernel<6>;
  readonly softmaxGrad: Kernel<6>;
  readonly flashWeights: Kernel<11>;
  readonly flashEnd: Kernel<7>;
  readonly flashWeightsAgain: Kernel<6>;
  readonly flashDeltas: Kernel<7>;
  readonly flashScoreGrad: Kernel<6>;
  readonly product: Sgemm;
  readonly crossEntropy: Kernel<6, number>;
  readonly crossEntropyGrad: Kernel<7>;
  readonly crossEntropyInPlace: Kernel<6, number>;
  readonly fillRows: Kernel<4>;
  readonly takeRows: Kernel<6, number>;
  readonly addToRows: Kernel<6>;
  readonly transpose: Kernel<4>;
  readonly permute: Kernel<12>;
  readonly roundToBfloat16: Kernel<2>;
  readonly roundToFloat16: Kernel<2>;
  readonly dropout: Kernel<8>;
  readonly columns: Kernel<15>;
  readonly addColumns: Kernel<15>;
  readonly maxPool: Kernel<16>;
  readonly maxPoolGrad: Kernel<6>;
  readonly channelMoments: Kernel<6>;
  readonly channelSums: Kernel<5>;
  readonly channelProducts: Kernel<7>;
  readonly channelAffine: Kernel<7>;
  readonly channelGrad: Kernel<10>;
}

/** Instantiates the compiled kernels on `memory`. Throws: ENGINE if the kernels were not built. */
export function loadFusedKernels(memory: WebAssembly.Memory): FusedKernels {
  const file = join(__dirname, 'kernels.wasm');
  if (!existsSync(file)) {
    throw new ShardlabError(
      'ENGINE',
      `The engine's kernels are missing: there is no ${file}. Run npm run build.`,
    );
  }
  const module = new WebAssembly.Module(readFileSync(file));
  // The module exports the functions of kernels/assembly/index.ts; a test calls each function.
  return new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as FusedKernels;
}

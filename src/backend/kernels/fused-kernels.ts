import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ShardlabError } from '../../core/errors';
import type { Sgemm } from '../blas';

/** The functions of kernels/assembly, on byte offsets of the backend's heap. Their own files say what each does. */
export interface FusedKernels {
  addScaled(target: number, source: number, factor: number, n: number): void;
  scale(x: number, factor: number, n: number): void;
  fill(x: number, bits: number, n: number): void;
  exp(x: number, out: number, n: number): void;
  tanh(x: number, out: number, n: number): void;
  log(x: number, out: number, n: number): void;
  sqrt(x: number, out: number, n: number): void;
  rsqrt(x: number, out: number, n: number): void;
  power(x: number, out: number, n: number, exponent: number): void;
  sumOfSquares(x: number, n: number): number;
  columnSums(x: number, out: number, rows: number, columns: number): void;
  adamW(
    param: number,
    grad: number,
    expAvg: number,
    expAvgSq: number,
    n: number,
    keep: number,
    stepSize: number,
    beta1: number,
    rest1: number,
    beta2: number,
    rest2: number,
    rootCorrection: number,
    eps: number,
    gradScale: number,
  ): void;
  adamW8bit(
    param: number,
    grad: number,
    codes1: number,
    scales1: number,
    codes2: number,
    scales2: number,
    first: number,
    n: number,
    size: number,
    blockSize: number,
    tables: number,
    scratch: number,
    keep: number,
    stepSize: number,
    beta1: number,
    rest1: number,
    beta2: number,
    rest2: number,
    rootCorrection: number,
    eps: number,
    gradScale: number,
  ): void;
  sgd(
    param: number,
    grad: number,
    buffer: number,
    n: number,
    lr: number,
    momentum: number,
    weightDecay: number,
    nesterov: number,
    gradScale: number,
  ): void;
  layerNorm(
    x: number,
    weight: number,
    bias: number,
    y: number,
    stats: number,
    rows: number,
    width: number,
    eps: number,
  ): void;
  layerNormGrad(
    x: number,
    weight: number,
    stats: number,
    dy: number,
    dx: number,
    dWeight: number,
    dBias: number,
    rows: number,
    width: number,
  ): void;
  gelu(x: number, y: number, n: number): void;
  geluGrad(x: number, dy: number, dx: number, n: number): void;
  causalSoftmax(
    scores: number,
    out: number,
    matrices: number,
    rows: number,
    columns: number,
    scale: number,
  ): void;
  softmaxGrad(p: number, dp: number, dScores: number, rows: number, columns: number, scale: number): void;
  flashWeights(
    scores: number,
    tops: number,
    sums: number,
    out: number,
    rows: number,
    columns: number,
    seen: number,
    scale: number,
    isFirst: boolean,
    width: number,
    outStride: number,
  ): void;
  flashEnd(
    tops: number,
    sums: number,
    out: number,
    lse: number,
    rows: number,
    width: number,
    outStride: number,
  ): void;
  flashWeightsAgain(
    scores: number,
    lse: number,
    rows: number,
    columns: number,
    seen: number,
    scale: number,
  ): void;
  flashDeltas(
    dOut: number,
    out: number,
    dLse: number,
    deltas: number,
    rows: number,
    width: number,
    stride: number,
  ): void;
  flashScoreGrad(
    weights: number,
    dWeights: number,
    deltas: number,
    rows: number,
    columns: number,
    scale: number,
  ): void;
  product: Sgemm;
  crossEntropy(
    logits: number,
    labels: number,
    losses: number,
    norms: number,
    rows: number,
    classes: number,
  ): number;
  crossEntropyGrad(
    logits: number,
    labels: number,
    norms: number,
    dLogits: number,
    rows: number,
    classes: number,
    scale: number,
  ): void;
  crossEntropyInPlace(
    logits: number,
    labels: number,
    losses: number,
    rows: number,
    classes: number,
    scale: number,
  ): number;
  fillRows(out: number, bias: number, rows: number, columns: number): void;
  takeRows(table: number, ids: number, out: number, count: number, tableRows: number, width: number): number;
  addToRows(table: number, ids: number, rows: number, count: number, tableRows: number, width: number): void;
  transpose(x: number, out: number, rows: number, columns: number): void;
  permute(
    x: number,
    out: number,
    n0: number,
    s0: number,
    n1: number,
    s1: number,
    n2: number,
    s2: number,
    n3: number,
    s3: number,
    inner: number,
    innerStride: number,
  ): void;
  roundToBfloat16(x: number, n: number): void;
  roundToFloat16(x: number, n: number): void;
}

/** Instantiates the compiled kernels on `memory`. Throws: ENGINE when they were not built. */
export function loadFusedKernels(memory: WebAssembly.Memory): FusedKernels {
  const file = join(__dirname, 'kernels.wasm');
  if (!existsSync(file)) {
    throw new ShardlabError(
      'ENGINE',
      `The engine's kernels are missing: there is no ${file}. Run npm run build.`,
    );
  }
  const module = new WebAssembly.Module(readFileSync(file));
  // The exports are those of kernels/assembly/index.ts; a test calls each.
  return new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as FusedKernels;
}

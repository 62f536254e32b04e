export { awaitGradient } from './autograd/awaited-gradient';
export { isSoleOwner } from './autograd/differentiate';
export { dividedBy, layerName, markPart, markWhole } from './autograd/divided';
export { currentEagerTape, EagerTape, recordEagerly } from './autograd/eager';
export { noteExchange, type StartedExchange } from './autograd/exchanges';
export { accumulateGrad, type Leaf, leafOf, markLeaf } from './autograd/leaves';
export { runOffloaded } from './autograd/offloaded';
export { type GatherState, type PartPass, type PartRepeats, recordPart } from './autograd/part-pass';
export { isReplaying, type RecordedNode } from './autograd/recording';
export { runRegion } from './autograd/region';
export type { Region } from './autograd/region-call';
export type { Meter } from './autograd/sieve';
export { tidy } from './autograd/tape';
export {
  type ForwardPhase,
  gradients,
  type Pass,
  runUnit,
  type TrainedParts,
  type Unit,
  type UnitHooks,
} from './autograd/unit';
export { findBlas } from './backend/blas';
export { currentDraws, currentEngine } from './backend/current-engine';
export { currentTrace, type Trace, type TracedKernel, tracing } from './backend/current-trace';
export type { Elementwise, Quantized } from './backend/elementwise';
export type { Engine, Storage } from './backend/engine';
export type { Windows } from './backend/fused/average-pool';
export { FUSED, hasFused, runForFirst, runFused } from './backend/fused/fused-kernel';
export { describeDamage } from './backend/heap-health';
export type { HostArray } from './backend/host-arrays';
export {
  averagePool2d,
  CONVOLUTION,
  type ConvOptions,
  conv2d,
  convTranspose2d,
  MAX_POOL,
  type MaxPoolOptions,
  maxPool2d,
  pairOf,
  requireHalfPadding,
  TRANSPOSED_CONVOLUTION,
} from './backend/image-ops';
export type { Interrupts } from './backend/interrupts';
export { isView, type KernelCall, type KernelCosts, type KernelTensor } from './backend/kernel-costs';
export { readValues } from './backend/meta-backend';
export { type MetaEngine, withMetaEngine } from './backend/meta-engine';
export { OPTIMIZER_UPDATES } from './backend/meta-updates';
export {
  causalAttention,
  causalSoftmax,
  dropout,
  embedding,
  type FlashAttention,
  flashAttention,
  flashAttentionGrad,
  gelu,
  layerNorm,
  linear,
  silu,
  softmaxCrossEntropy,
  sumRows,
} from './backend/ops';
export { HEAP_END } from './backend/out-of-memory';
export { type DynamicMapKind, dynamicMap, SIGNED_ZERO } from './backend/quantization-tables';
export { listenToKernels, tfjsState, untracked, watchHostReads } from './backend/tfjs-state';
export { undone } from './backend/undone';
export { createWasmEngine } from './backend/wasm-engine';
export { type Pair, windowNumbers } from './backend/window-sizes';

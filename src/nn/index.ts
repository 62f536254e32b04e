export { type Attend, attention, CausalSelfAttention, SequenceAttention } from './attention';
export { Block, MoeBlock } from './block';
export type { Buffer } from './buffer';
export type { Next, Wrapper } from './callable';
export { ModuleDict, ModuleList, ModuleListPart, Sequential } from './containers';
export { contentsOf, contentsOfOne } from './contents';
export { Embedding, type EmbeddingOptions } from './embedding';
export { wholeTensor, writeValues } from './first-values';
export type { ValueSource } from './init';
export { unsyncedBatchNorm } from './layers/batch-norm';
export { Dropout } from './layers/dropout';
export { asModule, isLayer, type Layer } from './layers-model';
export { affine, Linear, type LinearOptions } from './linear';
export { loadState, type StateDict, type StateEntry } from './load-state';
export { applyLoRA, loraOf, targetedLayers, withoutAdapters } from './lora';
export { buildModel, chooseTrained } from './models/build-model';
export type { Dit } from './models/dit';
export { NUM_TIMESTEPS } from './models/dit-experts';
export type { GPT, MoeGPT } from './models/gpt';
export { LanguageModel, type LogitsReader, type TensorPlan } from './models/language-model';
export type { Llama } from './models/llama';
export { T5Encoder } from './models/t5-encoder';
export { VideoModel } from './models/video-model';
export { Module } from './module';
export { type ExpertCopies, Experts, type FeedForward } from './moe/experts';
export {
  type ExpertExchange,
  type ExpertLoad,
  MixtureOfExperts,
  mixturesIn,
  type RankLoad,
} from './moe/mixture-of-experts';
export type { TemperatureGating, TemperatureGatingOptions } from './moe/temperature-gating';
export { fitsPattern, groupParameters, modulesByPattern, modulesMatching } from './name-patterns';
export { LayerNorm, RMSNorm } from './norms';
export { packSequences } from './packing';
export {
  isOnHost,
  Parameter,
  type Span,
  type StateBuffer,
  type StateSegment,
  type StateSlice,
  type TensorSpan,
} from './parameter';
export type { Graded, ParameterGradients } from './parameter-gradients';
export { type DividedSequences, fromBegin, type PositionRange } from './positions';
export { requireModule, withParameters } from './require-parameters';
export { isUsedFromOutside, requireSelfContained } from './self-contained';
export {
  copyElements,
  disposeSpan,
  fillAll,
  fillElements,
  floatsOf,
  gradSpansOf,
  type SpanOf,
  scaleElements,
  sumOfSquares,
  zerosIn,
} from './spans';
export { readState, spansOf, stateBuffers, writePart } from './state-values';
export type { IndexRange, SplitOver, TensorSplit } from './tensor-split';
export type { TorchLayer } from './torch-layer';

/*
 * Layers and models under the one name `nn` of ranks' cells. They need a separate module, because cells also use the
 * names as types (`let head: nn.Linear`), and only a namespace has both values and types.
 */

export { attention, CausalSelfAttention } from '../../nn/attention';
export { Block, MoeBlock } from '../../nn/block';
export { Buffer } from '../../nn/buffer';
export { ModuleDict, ModuleList, Sequential } from '../../nn/containers';
export { DitBlock } from '../../nn/dit-block';
export { Embedding } from '../../nn/embedding';
export * as init from '../../nn/init';
export * from '../../nn/layers/activations';
export {
  BatchNorm1d,
  BatchNorm2d,
  type BatchNormOptions,
  SyncBatchNorm,
  type SyncBatchNormOptions,
} from '../../nn/layers/batch-norm';
export * from '../../nn/layers/conv';
export * from '../../nn/layers/dropout';
export * from '../../nn/layers/group-norm';
export * from '../../nn/layers/loss-modules';
export * from '../../nn/layers/multihead-attention';
export * from '../../nn/layers/pooling';
export { GRU, LSTM, type RecurrentOptions, RNN } from '../../nn/layers/recurrent';
export * from '../../nn/layers/shapes';
export * from '../../nn/layers/transformer-encoder';
export { Linear } from '../../nn/linear';
export { LlamaBlock } from '../../nn/llama-block';
export { applyLoRA, type LoraOptions, mergeLoRA } from '../../nn/lora';
export { Dit, dit } from '../../nn/models/dit';
export { DitExperts } from '../../nn/models/dit-experts';
export { GPT, gpt, MoeGPT, moe } from '../../nn/models/gpt';
export { Llama, llama } from '../../nn/models/llama';
export { T5Encoder, t5Encoder } from '../../nn/models/t5-encoder';
export { Module } from '../../nn/module';
export { FeedForward } from '../../nn/moe/experts';
export { addAuxiliaryLosses, MixtureOfExperts } from '../../nn/moe/mixture-of-experts';
export { TemperatureGating } from '../../nn/moe/temperature-gating';
export { freeze } from '../../nn/name-patterns';
export { LayerNorm, RMSNorm } from '../../nn/norms';
export { Parameter } from '../../nn/parameter';
export * as functional from './functional-names';

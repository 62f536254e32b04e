/*
 * Layers and models under the one name `nn` of ranks' cells. They need a separate module, because cells also use the
 * names as types (`let head: nn.Linear`), and only a namespace has both values and types.
 */

export { attention, CausalSelfAttention } from '../attention';
export { Block, MoeBlock } from '../block';
export { Buffer } from '../buffer';
export { ModuleDict, ModuleList, Sequential } from '../containers';
export { DitBlock } from '../dit-block';
export { Embedding } from '../embedding';
export * as init from '../init';
export * from '../layers/activations';
export {
  BatchNorm1d,
  BatchNorm2d,
  type BatchNormOptions,
  SyncBatchNorm,
  type SyncBatchNormOptions,
} from '../layers/batch-norm';
export * from '../layers/conv';
export * from '../layers/dropout';
export * from '../layers/group-norm';
export * from '../layers/loss-modules';
export * from '../layers/multihead-attention';
export * from '../layers/pooling';
export { GRU, LSTM, type RecurrentOptions, RNN } from '../layers/recurrent';
export * from '../layers/shapes';
export * from '../layers/transformer-encoder';
export { Linear } from '../linear';
export { LlamaBlock } from '../llama-block';
export { applyLoRA, type LoraOptions, mergeLoRA } from '../lora';
export { Dit, dit } from '../models/dit';
export { DitExperts } from '../models/dit-experts';
export { GPT, gpt, MoeGPT, moe } from '../models/gpt';
export { Llama, llama } from '../models/llama';
export { T5Encoder, t5Encoder } from '../models/t5-encoder';
export { Module } from '../module';
export { FeedForward } from '../moe/experts';
export { addAuxiliaryLosses, MixtureOfExperts } from '../moe/mixture-of-experts';
export { TemperatureGating } from '../moe/temperature-gating';
export { freeze } from '../name-patterns';
export { LayerNorm, RMSNorm } from '../norms';
export { Parameter } from '../parameter';
export * as functional from './functional-names';

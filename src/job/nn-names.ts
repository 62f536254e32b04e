/*
 * Layers and models under the one name `nn` of ranks' cells. A module of its own, because cells use the names as types too
 * (`let head: nn.Linear`), which only a namespace offers.
 */
export { Block } from '../nn/block';
export { CausalSelfAttention } from '../nn/causal-self-attention';
export { Embedding } from '../nn/embedding';
export { initializer } from '../nn/init';
export { LayerNorm } from '../nn/layer-norm';
export { Linear } from '../nn/linear';
export { GPT, gpt } from '../nn/models/gpt';
export { Module, ModuleList } from '../nn/module';

import type { WasmContext } from '../wasm-context';
import { registerCausalAttention } from './causal-attention';
import { registerCausalSoftmax } from './causal-softmax';
import { registerCrossEntropy } from './cross-entropy';
import { registerEmbedding } from './embedding';
import { registerFlashAttention } from './flash-attention';
import { registerGelu } from './gelu';
import { registerLayerNorm } from './layer-norm';
import { registerLinear } from './linear';

/** Registers every fused kernel of the engine with its gradient. */
export function registerFusedKernels(context: WasmContext): void {
  registerLinear(context);
  registerLayerNorm(context);
  registerGelu(context);
  registerCausalSoftmax(context);
  registerCausalAttention(context);
  registerFlashAttention(context);
  registerCrossEntropy(context);
  registerEmbedding(context);
}

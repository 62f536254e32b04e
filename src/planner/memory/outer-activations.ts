import type { Bytes } from '../../core';
import type { Layout } from '../layout';
import { isPlainPyTorch, type TokenSizes } from './layer-activations';
import type { StageSizes } from './pipeline-stage';

/**
 * Returns the activations that are stored outside the layers: a mask of the embedding's dropout for every microbatch in flight
 * and, on the last stage, the inputs of the last norm and of the head. Only blocks are compiled, so the norm is a chain of
 * operations in float32, unless the program has fused norms.
 * Source: Korthikanti et al. 2022, section 4.3 (sbhp/t for the mask, 4sbh/t for norm and head).
 */
export function outerActivations(layout: Layout, stage: StageSizes, sizes: TokenSizes): Bytes {
  const { tokens, itemBytes, dim, part } = sizes;
  const { model, dropout, fusedNorms, virtualStages } = layout;
  const mask = stage.isFirst && dropout ? (part * stage.chunksInFlight) / virtualStages : 0;
  if (!stage.isLast) return tokens * mask;
  const isPlain = isPlainPyTorch(layout);
  const norm = isPlain && model.norm === 'rms' && !fusedNorms ? (4 + itemBytes) * part : itemBytes * part;
  return tokens * (mask + norm + itemBytes * (isPlain ? dim : part));
}

/**
 * Returns the buffers of PyTorch's pipelining. Every microbatch and stage has a buffer to receive an activation (the first
 * layer's input) and a buffer to receive a gradient. A stage's outputs are stored until backward. Megatron-LM has no such
 * buffers.
 * Source: torch.distributed.pipelining, stage.py: args_recv_info, grad_recv_info, fwd_cache.
 */
export function pipelineBuffers(layout: Layout, stage: StageSizes, stream: Bytes): Bytes {
  const { stack, pp, numMicroBatches, virtualStages } = layout;
  if (stack !== 'fsdp2' || pp === 1) return 0;
  const all = numMicroBatches * virtualStages;
  const inputs = stage.isFirst ? all - numMicroBatches : all;
  const outputs = stage.isLast ? all - numMicroBatches : all;
  const inFlight = Math.min(stage.chunksInFlight, inputs);
  return (
    stream * (inputs - inFlight + outputs + (stage.isLast && virtualStages === 1 ? 0 : stage.chunksInFlight))
  );
}

/**
 * Returns the bytes per logit of the cross-entropy at three moments: while the loss is computed, while its gradient is
 * computed, and (only the gradient) while the head's backward reads it. Logits are bf16 or fp16, sharded by tp along the
 * vocabulary.
 * - compiled: logits and their gradient; otherwise only a maximum and a sum per row are saved (the partitioner's set for
 *   F.cross_entropy(logits.float()), torch 2.13; TorchTitan compiles its loss with the model).
 * - eager: logits 2, float32 copy 4, log-probabilities 4; backward, after logits are freed (TorchTitan: `del pred`):
 *   log-probabilities 4, gradient of nll_loss 4, gradient of log_softmax 4.
 * - eager, sharded by tp (torch.distributed.tensor.parallel.loss_parallel): 2 + 4, shifted logits 4, exponentials 4; backward:
 *   log-probabilities 4, zeros 4, (zeros + exp) 4, multiplied by the loss's gradient 4.
 * - Megatron-LM (tensor_parallel/cross_entropy.py): logits 2, float32 copy 4, which becomes softmax and gradient in place.
 * - Transformers' causal models: the float32 logits are a stored output; shifted copy 4, log-probabilities 4, two gradients.
 * A PyTorch pipeline's last stage stores logits as outputs: see keptOutputs.
 */
export function lossBytesOf(layout: Layout, { itemBytes, isSplit }: TokenSizes) {
  if (!isPlainPyTorch(layout))
    return { forward: itemBytes + 4, backward: itemBytes + 4, gradient: itemBytes };
  if (layout.stack === 'deepspeed') return { forward: itemBytes + 12, backward: 16, gradient: itemBytes + 4 };
  if (layout.compileLoss) return { forward: itemBytes, backward: 2 * itemBytes, gradient: itemBytes };
  const copy = itemBytes === 4 ? 0 : 4;
  if (isSplit) return { forward: itemBytes + copy + 8, backward: 16, gradient: itemBytes };
  return { forward: itemBytes + copy + 4, backward: 12, gradient: itemBytes };
}

/**
 * Returns the number of microbatches whose logits a pipeline's last stage still stores when its last loss is computed.
 * Source: torch.distributed.pipelining, stage.py: output_chunks, merged by torch.cat at the schedule's end.
 */
export function keptOutputs({ stack, pp, numMicroBatches }: Layout): number {
  return stack === 'fsdp2' && pp > 1 ? numMicroBatches : 0;
}

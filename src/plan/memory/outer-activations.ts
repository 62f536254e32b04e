import type { Bytes } from '../../core/units';
import type { Layout } from '../layout';
import { isPlainPyTorch, type TokenSizes } from './layer-activations';
import type { PipelineStage } from './pipeline-stage';

/**
 * What is kept outside the layers: a mask of the embedding's dropout for every microbatch in flight; on the last stage the
 * last norm's input and the head's. PyTorch compiles blocks alone, so the last norm is a chain of operations in float32.
 * Source: Korthikanti et al. 2022, section 4.3 (sbhp/t for the mask, 4sbh/t for norm and head).
 */
export function outerActivations(layout: Layout, stage: PipelineStage, sizes: TokenSizes): Bytes {
  const { tokens, itemBytes, dim, part } = sizes;
  const { model, dropout, virtualStages } = layout;
  const mask = stage.isFirst && dropout ? (part * stage.chunksInFlight) / virtualStages : 0;
  if (!stage.isLast) return tokens * mask;
  const isPlain = isPlainPyTorch(layout);
  const norm = isPlain && model.norm === 'rms' ? (4 + itemBytes) * part : itemBytes * part;
  return tokens * (mask + norm + itemBytes * (isPlain ? dim : part));
}

/**
 * PyTorch's pipelining makes a buffer to receive an activation and one to receive a gradient for every microbatch and stage, and
 * keeps a stage's outputs until their backward; the first layer's input is such a buffer. Megatron-LM keeps none of these.
 * Source: torch.distributed.pipelining, stage.py: args_recv_info, grad_recv_info, fwd_cache.
 */
export function pipelineBuffers(layout: Layout, stage: PipelineStage, stream: Bytes): Bytes {
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
 * Bytes per logit of cross-entropy's bf16 or fp16 logits, each cut by tp along the vocabulary, at its three widest moments:
 * while the loss is computed, while its gradient is, and (of the gradient) while the head's backward reads it.
 * - compiled: logits and their gradient; the maximum and the sum a row are all that is saved besides (the partitioner's set for
 *   F.cross_entropy(logits.float()), torch 2.13; TorchTitan compiles its loss with the model).
 * - op by op: logits 2, float32 copy 4, log-probabilities 4; backward: log-probabilities 4, gradient of nll_loss 4, of log_softmax 4,
 *   when logits are freed (TorchTitan: `del pred`).
 * - op by op, cut by tp (torch.distributed.tensor.parallel.loss_parallel): 2 + 4, shifted 4, exp 4; backward: log-probabilities 4,
 *   zeros 4, (zeros + exp) 4, times the loss's gradient 4.
 * - Megatron-LM (tensor_parallel/cross_entropy.py): logits 2, float32 copy 4 that turns into softmax and gradient in place.
 * - Transformers' causal models: the float32 logits are an output that stays, shifted copy 4, log-probabilities 4, two gradients.
 * A pipeline's last stage of PyTorch keeps logits as outputs: see keptOutputs.
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
 * Microbatches whose logits a pipeline's last stage still holds when its last loss is computed.
 * Source: torch.distributed.pipelining, stage.py: output_chunks, merged by torch.cat at the schedule's end.
 */
export function keptOutputs({ stack, pp, numMicroBatches }: Layout): number {
  return stack === 'fsdp2' && pp > 1 ? numMicroBatches : 0;
}

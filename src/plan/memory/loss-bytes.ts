import type { Layout } from '../layout';
import { isPlainPyTorch, type TokenSizes } from './layer-activations';

/** Bytes a logit at the three widest moments of the loss. */
export interface LossBytes {
  /** While the loss is computed. */
  readonly forward: number;
  /** While its gradient is. */
  readonly backward: number;
  /** Of the gradient, while the head's backward reads it. */
  readonly gradient: number;
}

/**
 * What cross-entropy holds of bf16 or fp16 logits, each cut by tp along the vocabulary.
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
export function lossBytesOf(layout: Layout, { itemBytes, isSplit }: TokenSizes): LossBytes {
  if (!isPlainPyTorch(layout))
    return { forward: itemBytes + 4, backward: itemBytes + 4, gradient: itemBytes };
  if (layout.stack === 'deepspeed') return { forward: itemBytes + 12, backward: 16, gradient: itemBytes + 4 };
  if (layout.compileLoss) return { forward: itemBytes, backward: 2 * itemBytes, gradient: itemBytes };
  const copy = itemBytes === 4 ? 0 : 4;
  if (isSplit) return { forward: itemBytes + copy + 8, backward: 16, gradient: itemBytes };
  return { forward: itemBytes + copy + 4, backward: 12, gradient: itemBytes };
}

/**
 * Micro-batches whose logits a pipeline's last stage still holds when its last loss is computed.
 * Source: torch.distributed.pipelining, stage.py: output_chunks, merged by torch.cat at the schedule's end.
 */
export function keptOutputs({ stack, pp, numMicroBatches }: Layout): number {
  return stack === 'fsdp2' && pp > 1 ? numMicroBatches : 0;
}

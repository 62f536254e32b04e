import type { Bytes } from '../../core/units';
import type { Layout } from '../layout';
import { isPlainPyTorch, type TokenSizes } from './layer-activations';
import type { PipelineStage } from './pipeline-stage';

/**
 * What is kept outside the layers: a mask of the embedding's dropout for every micro-batch in flight; on the last stage the
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
 * PyTorch's pipelining makes a buffer to receive an activation and one to receive a gradient for every micro-batch and stage, and
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

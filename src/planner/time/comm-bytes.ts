import type { Bytes } from '../../core';
import type { Calibration } from '../calibration';
import { expertExchangeCost } from '../cost/expert-exchange';
import { ITEM_BYTES } from '../cost/gemm';
import { sequenceExchanges } from '../cost/sequence-exchange';
import { type Layout, recomputedShare } from '../layout';
import type { StageSizes } from '../memory/pipeline-stage';
import type { CommAxis } from '../prediction';
import { afterStep, commPerMicroBatch, type GatherCounts, gatherCounts, unitComm } from './data-parallel';
import { layerAttention, numTensorParallelPairs } from './layer-time';

/** Returns the wire bytes that a GPU receives in an iteration, by axis, each on the stage that receives most. */
export function commBytes(
  layout: Layout,
  stages: readonly StageSizes[],
  cal: Calibration,
): Readonly<Record<CommAxis, Bytes>> {
  const all = stages.map((stage) => stageCommBytes(layout, stage, cal));
  const most = (axis: CommAxis): Bytes => Math.max(...all.map((bytes) => bytes[axis]));
  return { dp: most('dp'), tp: most('tp'), pp: most('pp'), cp: most('cp'), ep: most('ep') };
}

/** How often a step gathers units, and how often it reduces gradients. */
export interface CommCounts extends GatherCounts {
  readonly reductions: number;
}

/** Returns the wire bytes that a GPU of a stage receives in an iteration, by axis; by default with the framework's own counts. */
export function stageCommBytes(
  layout: Layout,
  stage: StageSizes,
  cal: Calibration,
  counts: CommCounts = countsOf(layout),
): Readonly<Record<CommAxis, Bytes>> {
  const { model, microBatch, cp, numMicroBatches, recompute } = layout;
  const tokens = (microBatch * model.seq) / cp;
  const forwards = recompute === 'full' ? 1 + recomputedShare(layout) : 1;
  const attention = sequenceExchanges(layout, tokens, layerAttention(layout, cal), cal);
  const experts = expertExchangeCost(layout, tokens, cal);
  const passes = stage.layers * numMicroBatches;
  return {
    dp: dataBytes(layout, stage, counts, cal),
    tp: layout.tp === 1 ? 0 : tensorBytes(layout, stage, tokens),
    pp: layout.pp === 1 ? 0 : stageBytes(layout, stage, tokens),
    cp: passes * (forwards * attention.forward.bytes + attention.backward.bytes),
    ep: passes * (forwards + 1) * experts.bytes,
  };
}

/** Returns how often the framework gathers and reduces in a step. */
export function countsOf(layout: Layout): CommCounts {
  const reductions = commPerMicroBatch(layout).reduce ? layout.numMicroBatches : 1;
  return { ...gatherCounts(layout), reductions };
}

function dataBytes(layout: Layout, stage: StageSizes, counts: CommCounts, cal: Calibration): Bytes {
  const params = stage.params / layout.model.experts;
  const layers = stage.layers * stage.layerParams;
  const gathered = counts.layer * layers + counts.root * (params - layers);
  return (
    unitComm(layout, gathered, cal).gatherBytes +
    counts.reductions * unitComm(layout, params, cal).reduceBytes +
    afterStep(layout, params, cal).bytes
  );
}

/**
 * Returns the bytes of tensor parallelism: an all-reduce per pair of matmuls and direction, one after the embedding, one of the
 * head's gradient, and three of the loss's values per token. Source: Shoeybi et al. 2019, section 3, and Megatron-LM's
 * cross_entropy.py; sequence parallelism halves and doubles the collectives, and sends as much.
 */
function tensorBytes(layout: Layout, { layers, isFirst, isLast }: StageSizes, tokens: number): Bytes {
  const { model, tp, precision, numMicroBatches, recompute } = layout;
  const hidden = tokens * model.dim * ITEM_BYTES[precision];
  const passes = recompute === 'full' ? 2 + recomputedShare(layout) : 2;
  const embedding = isFirst && model.vocab > 0 ? hidden : 0;
  const head = isLast && model.logits > 0 ? hidden + 3 * tokens * ITEM_BYTES.fp32 : 0;
  const reduced = layers * passes * numTensorParallelPairs(model) * hidden + embedding + head;
  return numMicroBatches * reduced * ((2 * (tp - 1)) / tp);
}

/**
 * Returns the bytes that a stage receives: inputs from the stage before, except the model's first inputs, and gradients from the
 * stage after, except the last stage's. Under tensor parallelism each rank sends its part. Source: Narayanan et al. 2021,
 * section 4.1.
 */
function stageBytes(layout: Layout, { isFirst, isLast }: StageSizes, tokens: number): Bytes {
  const { model, tp, precision, numMicroBatches, virtualStages } = layout;
  const received = 2 * virtualStages - (isFirst ? 1 : 0) - (isLast ? 1 : 0);
  return (numMicroBatches * received * tokens * model.dim * ITEM_BYTES[precision]) / tp;
}

import type { Seconds } from '../../core';
import type { Calibration } from '../calibration';
import { collectiveSeconds, groupPlaceOf } from '../cost/collective';
import { ITEM_BYTES, productSeconds, trafficSeconds } from '../cost/gemm';
import type { Layout, Precision } from '../layout';
import { besideFp8 } from '../stack-rules';
import { NO_PASS } from './pass';

/** Returns the time before the first layer (embeddings) and after the last layer (head and loss), for one microbatch. */
export function outerTime(layout: Layout, cal: Calibration) {
  const { model, microBatch, cp, tp, hardware, precision } = layout;
  const tokens = (microBatch * model.seq) / cp;
  const moved = (bytes: number): Seconds => trafficSeconds(bytes, hardware, cal);
  const item = ITEM_BYTES[precision];
  const hidden = tokens * model.dim * item;
  const place = groupPlaceOf(tp, 1, hardware.gpusPerNode);
  const shared = tp > 1 ? collectiveSeconds('allReduce', hidden, place, hardware, cal) : 0;
  const host = 10 * cal.launchSeconds;
  const first = {
    forward: { ...NO_PASS, elementwise: moved(4 * hidden), comm: shared, host },
    // The embedding's whole gradient is written, and the used rows are added.
    backward: {
      ...NO_PASS,
      elementwise: moved(3 * hidden + (2 * item * model.vocab * model.dim) / tp),
      host,
    },
  };
  if (model.logits === 0) return { first, last: { forward: NO_PASS, backward: NO_PASS } };
  const vocab = model.logits / tp;
  const product = (m: number, n: number, k: number): Seconds =>
    productSeconds({ m, n, k }, hardware, headPrecision(precision), cal);
  const loss = lossTraffic(layout, cal) * tokens * vocab;
  // In the fitted runs, the head is tied to the embedding, and the first and last stage add up the gradients of this weight.
  const isSlow = layout.stack !== 'fsdp2' && tp === 1 && model.tied;
  const slow = isSlow ? 1 / cal.wholeHeadEfficiency : 1;
  const last = {
    forward: {
      ...NO_PASS,
      products: slow * product(tokens, vocab, model.dim),
      elementwise: moved(loss / 2 + 4 * hidden),
      comm: tp > 1 ? 3 * collectiveSeconds('allReduce', tokens * 4, place, hardware, cal) : 0,
      host: 2 * host,
    },
    backward: {
      ...NO_PASS,
      products: slow * (product(tokens, model.dim, vocab) + product(model.dim, vocab, tokens)),
      elementwise: moved(loss / 2 + 4 * hidden),
      comm: shared,
      host: 2 * host,
    },
  };
  return { first, last };
}

/**
 * Returns the precision of the head's matmuls: frameworks compute in fp8 only within the layers. Source:
 * NVIDIA-NeMo/Megatron-Bridge, docs/performance-guide.md; TorchTitan's float8 filter, which leaves out the output.
 */
function headPrecision(precision: Precision): Precision {
  return besideFp8(precision);
}

/**
 * Returns the bytes per logit. Megatron-LM's vocabulary-parallel loss: transposed both ways (8), cast (6), copied (8), maximum
 * (4), subtracted (8), exponentials (8) and sum (4), divided (8), gradient scaled (8) and cast back (6). Eager PyTorch: cast
 * (6), log-softmax (8), its gradient from zeros with the targets' rows (16), cast back (6). Compiled, or fused as in
 * Transformer Engine: maximum, sum and gradient in one pass each over 16-bit logits. Source: the frameworks' code.
 */
function lossTraffic({ stack, compileLoss }: Layout, cal: Calibration): number {
  if (compileLoss) return 10;
  return stack === 'fsdp2' ? 36 : cal.lossBytes;
}

import type { Bytes, Seconds } from '../../core';
import type { Calibration } from '../calibration';
import type { Layout } from '../layout';
import type { ForwardBackward } from './attention';
import { collectiveSeconds, exchangeSeconds, groupPlaceOf } from './collective';
import { ITEM_BYTES } from './gemm';

/** What attention exchanges under context parallelism in one direction of a layer's pass: the time that it waits, and the received bytes. */
export interface SequenceExchange {
  readonly seconds: Seconds;
  readonly bytes: Bytes;
}

/** The exchanges of a layer's forward and backward, for one microbatch on one rank. */
export interface SequenceExchanges {
  readonly forward: SequenceExchange;
  readonly backward: SequenceExchange;
}

const NOTHING: SequenceExchange = { seconds: 0, bytes: 0 };

/**
 * Returns the exchanges of a layer's attention between ranks that hold parts of the positions. `tokens` are those of one rank,
 * and `attention` is the time of the rank's attention. Units: seconds, bytes.
 */
export function sequenceExchanges(
  layout: Layout,
  tokens: number,
  attention: ForwardBackward,
  cal: Calibration,
): SequenceExchanges {
  if (layout.cp === 1) return { forward: NOTHING, backward: NOTHING };
  return layout.cpKind === 'ulysses' ? ulysses(layout, tokens, cal) : ring(layout, tokens, attention, cal);
}

/**
 * Returns Ulysses' exchanges: an all-to-all each of q, k, v and of attention's output, and as many of their gradients in
 * backward. Attention waits for all of them. A rank receives (P - 1) / P of each tensor; if the ranks do not divide the heads of
 * k and v, these heads are repeated. Source: Jacobs et al. 2023, "DeepSpeed Ulysses", section 3.2.
 */
function ulysses(layout: Layout, tokens: number, cal: Calibration): SequenceExchanges {
  const { cp, tp, hardware, model, precision } = layout;
  const { perNode } = groupPlaceOf(cp, tp, hardware.gpusPerNode);
  const head = tokens * model.headDim * ITEM_BYTES[precision];
  const own = (model.heads / tp) * head;
  const shared = sentKeyHeads(layout) * head;
  const sent = (bytes: Bytes) => ({
    inside: (bytes * (perNode - 1)) / cp,
    outside: bytes * (1 - perNode / cp),
  });
  const all = [own, shared, shared, own].map(sent);
  const pass = {
    seconds: all.reduce((sum, exchange) => sum + exchangeSeconds(exchange, hardware, cal), 0),
    bytes: all.reduce((sum, { inside, outside }) => sum + inside + outside, 0),
  };
  return { forward: pass, backward: pass };
}

/** Returns the number of heads of k (and of v) that a rank sends: the ranks must divide them, so heads are repeated if need be. */
export function sentKeyHeads({ model, tp, cp, cpKind, stack }: Layout): number {
  const heads = Math.max(1, model.kvHeads / tp);
  if (cpKind === 'ring') return stack === 'fsdp2' ? model.heads / tp : heads;
  let sent = heads;
  while (sent % cp !== 0) sent += heads;
  return sent;
}

/**
 * Returns a ring's exchanges. Keys and values of all other ranks pass each rank in forward and again in backward, and their
 * gradients travel round in backward. In PyTorch, keys and values have one head per head of the queries (TorchTitan's repeat_kv)
 * and are gathered at once; their gradients are float32 and travel P times, each time beside the attention to the next part.
 * Megatron-LM sends 16-bit gradients P - 1 times; its messages are planned without overlap.
 * Source: Liu et al. 2023, "Ring Attention with Blockwise Transformers"; torch.distributed.tensor.experimental, _attention.py
 * (_AllGatherRotater, _templated_ring_attention_backward); Transformer Engine's context_parallel.py.
 */
function ring(
  layout: Layout,
  tokens: number,
  attention: ForwardBackward,
  cal: Calibration,
): SequenceExchanges {
  const { cp, tp, stack, hardware, model, precision } = layout;
  const place = groupPlaceOf(cp, tp, hardware.gpusPerNode);
  const part = 2 * tokens * sentKeyHeads(layout) * model.headDim * ITEM_BYTES[precision];
  const gather = collectiveSeconds('allGather', part * cp, place, hardware, cal);
  const forward = { seconds: gather, bytes: (cp - 1) * part };
  if (stack !== 'fsdp2') return { forward, backward: { seconds: 2 * gather, bytes: 2 * forward.bytes } };
  const gradients = (part * ITEM_BYTES.fp32) / ITEM_BYTES[precision];
  const hop = collectiveSeconds('send', gradients, place, hardware, cal);
  const exposed = (cp - 1) * Math.max(0, hop - attention.backward / cp) + hop;
  return {
    forward,
    backward: { seconds: gather + exposed, bytes: forward.bytes + cp * gradients },
  };
}

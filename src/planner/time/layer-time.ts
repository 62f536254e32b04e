import type { Seconds } from '../../core';
import { attentionMatrices, type ExpertSizes, expertShare } from '../block-params';
import type { Calibration } from '../calibration';
import { attentionSeconds, type ForwardBackward } from '../cost/attention';
import { collectiveSeconds, type GroupOperation, groupPlaceOf } from '../cost/collective';
import { layerKernels, layerTraffic, type Traffic } from '../cost/elementwise';
import { expertExchangeCost, permutedBytes } from '../cost/expert-exchange';
import { expertKernels, KERNELS_BEFORE_EXCHANGE } from '../cost/expert-launches';
import { castBytes } from '../cost/fp8-casts';
import { ITEM_BYTES, type Matmul, productSeconds, trafficSeconds } from '../cost/gemm';
import { sequenceExchanges } from '../cost/sequence-exchange';
import { type Layout, recomputedShare } from '../layout';
import { type ModelShape, traitsOf } from '../model-shape';
import { addPasses, NO_PASS, type PassTime, passSeconds, scaledPass } from './pass';

/** The times of one layer: forward, recomputation before backward, and backward. */
export interface LayerTime {
  readonly forward: PassTime;
  readonly recompute: PassTime;
  readonly backward: PassTime;
}

/** Returns the time of one layer of the layout's model. */
export function layerTime(layout: Layout, cal: Calibration): LayerTime {
  const { model, microBatch, cp } = layout;
  const tokens = (microBatch * model.seq) / cp;
  const own = ownPasses(layout, tokens, cal);
  const experts = model.moe === null ? null : expertPasses(layout, model.moe, tokens, cal);
  const passOf = (direction: Direction, launches: number): PassTime => {
    const idle = launches * launchSeconds(layout, cal);
    return experts === null
      ? own[direction]
      : passWithExperts(layout, own[direction], experts[direction], idle);
  };
  const forward = passOf('forward', KERNELS_BEFORE_EXCHANGE);
  const core = layerKernels(layout).core * launchSeconds(layout, cal);
  const unneeded = unneededProduct(layout, tokens, cal);
  const again = { ...forward, products: forward.products - unneeded };
  return { forward, backward: passOf('backward', 0), recompute: recomputed(layout, again, core) };
}

type Direction = 'forward' | 'backward';
type Passes = Readonly<Record<Direction, PassTime>>;

/** Returns the passes of a layer without its experts. */
function ownPasses(layout: Layout, tokens: number, cal: Calibration): Passes {
  const { hardware, precision, model, tp } = layout;
  const feed = model.moe === null ? feedProducts(layout, tokens, model.ffn) : [];
  const products = productsTime(layout, [...coreProducts(layout, tokens), ...feed], cal);
  const attention = layerAttention(layout, cal);
  const traffic = layerTraffic(layout);
  const casts = castBytes(layout);
  const moved = ({ whole, cut }: Traffic): number =>
    (tokens * model.dim * (whole / (layout.sequenceParallel ? tp : 1) + cut / tp) * ITEM_BYTES[precision]) /
    2;
  const comm = layerCollectives(layout, tokens, attention, cal);
  const kernels = layerKernels(layout);
  const launch = launchSeconds(layout, cal);
  const isGraph = layout.cudaGraph === 'attention' || layout.cudaGraph === 'iteration';
  const passOf = (direction: Direction): PassTime => ({
    products: products[direction],
    attention: attention[direction],
    elementwise: trafficSeconds(moved(traffic[direction]) + tokens * casts[direction], hardware, cal),
    comm: comm[direction],
    host: isGraph ? 0 : kernels[direction] * launch,
  });
  return { forward: passOf('forward'), backward: passOf('backward') };
}

/** Returns the part of a layer's passes from its router to the sum of the experts' results. */
function expertPasses(layout: Layout, moe: ExpertSizes, tokens: number, cal: Calibration): Passes {
  const products = productsTime(layout, expertProducts(layout, moe, tokens), cal);
  const passOf = (direction: Direction): PassTime => ({
    products: products[direction],
    attention: 0,
    elementwise: trafficSeconds(tokens * permutedBytes(layout, moe), layout.hardware, cal),
    comm: expertExchangeCost(layout, tokens, cal).seconds,
    host: expertKernels(layout, direction) * launchSeconds(layout, cal),
  });
  return { forward: passOf('forward'), backward: passOf('backward') };
}

/** Returns the CPU's time to launch a kernel. */
function launchSeconds({ tp }: Layout, cal: Calibration): Seconds {
  return cal.launchSeconds * (1 + cal.hostSkew * (tp - 1) ** 2);
}

/** Returns the time of matmuls in forward, and of the two backward matmuls that each forward matmul has. */
function productsTime(layout: Layout, products: readonly LayerProduct[], cal: Calibration) {
  const { hardware, precision, trainedShare } = layout;
  const time = (product: LayerProduct): Seconds =>
    (product.weight ?? 1) * productSeconds(product, hardware, precision, cal);
  return {
    forward: products.reduce((sum, product) => sum + time(product), 0),
    backward: products.reduce(
      // A frozen matrix has no gradient. The small matmuls of adapters are left out.
      (sum, { m, n, k, ...of }) =>
        sum + time({ ...of, m, n: k, k: n }) + trainedShare * time({ ...of, m: k, n, k: m }),
      0,
    ),
  };
}

/** Returns the matmuls that one rank runs in a layer's forward before the feed-forward. */
function coreProducts(layout: Layout, tokens: number): LayerProduct[] {
  const { model, tp, microBatch } = layout;
  const { dim, heads, headDim, crossTokens } = model;
  const context = (heads * headDim) / tp;
  const self = attentionProducts(layout, tokens);
  if (crossTokens === 0) return self;
  const read = microBatch * crossTokens;
  return [
    ...self,
    { m: tokens, n: context, k: dim },
    { m: read, n: 2 * context, k: dim },
    { m: tokens, n: dim, k: context },
  ];
}

/** Returns the time of a layer's attention on one rank. Under Ulysses, a rank has all positions of its heads. */
export function layerAttention(layout: Layout, cal: Calibration): ForwardBackward {
  const { model, microBatch, tp, cp, cpKind, attention: kernel, hardware, precision, dropout } = layout;
  const { exampleTokens: keys } = layout;
  const { headDim, causal, crossTokens } = model;
  const examples = (microBatch * model.seq) / keys;
  const core = { kernel, batch: (examples * model.heads) / tp, queries: keys / cp, headDim, dropout };
  const self = cpKind === 'ulysses' ? { ...core, batch: core.batch / cp, queries: keys } : core;
  // A ring divides causal attention's work evenly, so each rank has 1/cp of half the full matrix.
  const half = causal && self.queries < keys && kernel !== 'unfused' ? 0.5 : 1;
  const own = attentionSeconds({ ...self, keys, causal }, hardware, precision, cal);
  // Latent attention's values are shorter than its queries and keys.
  const part = half * (model.mla === null ? 1 : (headDim + model.mla.valueDim) / (2 * headDim));
  const whole = { forward: own.forward * part, backward: own.backward * part };
  if (crossTokens === 0) return whole;
  const cross = attentionSeconds({ ...core, keys: crossTokens, causal: false }, hardware, precision, cal);
  return { forward: whole.forward + cross.forward, backward: whole.backward + cross.backward };
}

/** Returns the matmuls of self-attention's projections; projections to a low rank are not divided by tensor parallelism. */
function attentionProducts({ model, tp }: Layout, tokens: number): LayerProduct[] {
  const { dim, heads, kvHeads, headDim, mla } = model;
  if (mla === null) {
    const keys = Math.max(1, kvHeads / tp);
    return [
      { m: tokens, n: (heads / tp + 2 * keys) * headDim, k: dim },
      { m: tokens, n: dim, k: (heads * headDim) / tp },
    ];
  }
  return attentionMatrices(model).map(({ rows, columns, isWhole = false }, i, all) => {
    const cut = isWhole ? 1 : tp;
    return i === all.length - 1
      ? { m: tokens, n: columns, k: rows / cut }
      : { m: tokens, n: columns / cut, k: rows };
  });
}

/** Returns the number of pairs of matmuls that tensor parallelism shards: attention, feed-forward, perhaps cross-attention. */
export function numTensorParallelPairs({ crossTokens }: ModelShape): number {
  return crossTokens > 0 ? 3 : 2;
}

/**
 * Returns the time of a layer's collectives. In forward and again in backward, tensor parallelism needs one all-reduce per
 * pair of matmuls; with sequence parallelism, it needs an all-gather and a reduce-scatter instead. Source: Shoeybi et al. 2019,
 * section 3; Korthikanti et al. 2022, section 4.2. For context parallelism, see `sequenceExchanges`.
 */
function layerCollectives(layout: Layout, tokens: number, core: ForwardBackward, cal: Calibration) {
  const { tp, hardware, precision, model, sequenceParallel, asyncTensorParallel } = layout;
  const place = groupPlaceOf(tp, 1, hardware.gpusPerNode);
  const bytes = tokens * model.dim * ITEM_BYTES[precision];
  const run = (op: GroupOperation): Seconds => collectiveSeconds(op, bytes, place, hardware, cal);
  const once = sequenceParallel ? run('allGather') + run('reduceScatter') : run('allReduce');
  const tensor = numTensorParallelPairs(model) * once * (asyncTensorParallel ? asyncShare(layout, cal) : 1);
  const { forward, backward } = sequenceExchanges(layout, tokens, core, cal);
  return { forward: tensor + forward.seconds, backward: tensor + backward.seconds };
}

/**
 * Returns the time of the matmul that recomputation leaves out. Backward needs the inputs of a layer's last matmul, not its
 * result, so a checkpoint of PyTorch stops before it (see `earlyStop`). A dit scales this result, so backward needs it.
 * Source: torch/utils/checkpoint.py (set_checkpoint_early_stop); Megatron-LM's checkpoints run the whole forward.
 */
function unneededProduct(layout: Layout, tokens: number, cal: Calibration): Seconds {
  const { stack, earlyStop, recompute, model, hardware, precision } = layout;
  const stops = stack === 'fsdp2' && earlyStop && recompute === 'full' && model.moe === null;
  const last = feedProducts(layout, tokens, model.ffn).at(-1);
  return stops && traitsOf(model).isPlain && last !== undefined
    ? productSeconds(last, hardware, precision, cal)
    : 0;
}

/**
 * Returns the share of tensor parallelism's collectives that remains beside the matmuls with which they overlap. Transformer
 * Engine leaves one of tp parts; PyTorch's asynchronous tensor parallelism leaves most of the time.
 */
function asyncShare({ stack, tp }: Layout, cal: Calibration): number {
  return stack === 'fsdp2' ? Math.max(1 / tp, cal.asyncShare) : 1 / tp;
}

/** Returns the recomputation: full recompute runs forward again; selective recompute runs what the framework does not store. */
function recomputed(layout: Layout, forward: PassTime, coreHost: Seconds): PassTime {
  const { recompute, stack, attention } = layout;
  if (recompute === 'none') return NO_PASS;
  if (recompute === 'full') return scaledPass(forward, recomputedShare(layout));
  // Megatron-LM recomputes the attention core, which fused kernels never store.
  if (stack !== 'fsdp2') {
    return attention === 'unfused' ? { ...NO_PASS, attention: forward.attention, host: coreHost } : NO_PASS;
  }
  // TorchTitan's policy saves the results of every second matmul, of attention and of reduce-scatters.
  return {
    products: forward.products / 2,
    attention: 0,
    elementwise: forward.elementwise,
    comm: forward.comm / 2,
    host: forward.host / 2,
  };
}

/** A matmul of a layer; `weight`: the share of the layers that have this matmul, if not all layers have it. */
export interface LayerProduct extends Matmul {
  readonly weight?: number;
}

/** Returns the matmuls of a feed-forward of this width. */
function feedProducts({ model, tp }: Layout, tokens: number, ffn: number): LayerProduct[] {
  return [
    { m: tokens, n: ((model.gatedFfn ? 2 : 1) * ffn) / tp, k: model.dim },
    { m: tokens, n: model.dim, k: ffn / tp },
  ];
}

/**
 * Returns the matmuls of a layer with experts: the router, the routed experts as one grouped matmul with equal loads, and the
 * shared experts. A rank has experts / ep routed experts, which get tokens of all ep ranks. Source: Megatron-LM's and
 * TorchTitan's grouped matmuls; auxiliary losses and biases of the router aim at equal loads.
 */
function expertProducts(layout: Layout, moe: ExpertSizes, tokens: number): LayerProduct[] {
  const { model, ep } = layout;
  const share = expertShare(model, moe);
  const local = moe.experts / ep;
  const rows = (tokens * moe.topK) / local;
  const routed = feedProducts(layout, rows, moe.ffn).map((product) => ({
    ...product,
    batch: local,
    isGrouped: true,
  }));
  const shared = moe.sharedFfn === 0 ? [] : feedProducts(layout, tokens, moe.sharedFfn);
  const router = { m: tokens, n: moe.experts, k: model.dim };
  const own = [router, ...routed, ...shared].map((product) => ({ ...product, weight: share }));
  if (share === 1) return own;
  const dense = (model.ffn - share * (moe.topK * moe.ffn + moe.sharedFfn)) / (1 - share);
  return [
    ...own,
    ...feedProducts(layout, tokens, dense).map((product) => ({ ...product, weight: 1 - share })),
  ];
}

/**
 * Multiprocessors that the exchange's kernels occupy. Source: NVIDIA-NeMo/Megatron-Bridge's recipes (moe_hybridep_num_sms: 32).
 */
const EXCHANGE_SMS = 32;

/**
 * Returns one pass of a layer with experts. If an exchange runs beside another microbatch's compute, it costs only the time
 * after this compute has ended, and the multiprocessors that the exchange occupies. In Megatron-LM the CPU waits for the
 * experts' numbers of tokens before it launches the experts' kernels. So launches hide only behind kernels of the same part of
 * the layer, and in forward the GPU idles for `idle`, the time of the first launches after the wait. A graph of the whole
 * iteration has no wait. Source: Megatron-LM's moe/token_dispatcher.py and moe/experts.py (m_splits.tolist()).
 */
export function passWithExperts(
  layout: Layout,
  before: PassTime,
  experts: PassTime,
  idle: Seconds,
): PassTime {
  const both = addPasses(before, experts);
  const compute = both.products + both.attention + both.elementwise;
  // The first microbatch's exchange has no other microbatch beside it.
  const beside = layout.overlapExperts ? 1 - 1 / layout.numMicroBatches : 0;
  const exposed = (wire: Seconds): Seconds => {
    const excess = Math.max(0, wire - compute);
    const taken = (Math.min(wire, compute) * EXCHANGE_SMS) / layout.hardware.sms;
    return beside * (excess + taken) + (1 - beside) * wire;
  };
  const comm = exposed(experts.comm);
  const waits = layout.stack === 'megatron' && layout.cudaGraph !== 'iteration';
  return {
    ...both,
    comm: before.comm + comm,
    host: waits ? passSeconds(before) + idle + passSeconds({ ...experts, comm }) : both.host,
  };
}

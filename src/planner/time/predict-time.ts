import type { Seconds } from '../../core';
import { CALIBRATION, type Calibration } from '../calibration';
import { collectiveSeconds, groupPlaceOf } from '../cost/collective';
import { ITEM_BYTES, trafficSeconds } from '../cost/gemm';
import { GENERATIONS, type Generation } from '../generations';
import type { Layout } from '../layout';
import { type StageSizes, stageOf } from '../memory/pipeline-stage';
import { optimizerBytesOf } from '../memory/state-bytes';
import { modelFlops } from '../model-flops';
import type { ComputeCause, TimePrediction } from '../prediction';
import { shardedStates } from '../stack-rules';
import { commBytes } from './comm-bytes';
import {
  afterStep,
  commPerMicroBatch,
  copyBytes,
  gatheringForwards,
  gathersAhead,
  numRegathers,
  overlapsReduction,
  unitComm,
} from './data-parallel';
import { type LayerTime, layerTime } from './layer-time';
import { outerTime } from './outer-time';
import { addPasses, deviceSeconds, NO_PASS, type PassTime, passSeconds, scaledPass } from './pass';

/** Share of SMs that a collective takes from compute that runs beside it. Source: NCCL's channels on NVLink machines. */
const COMM_SMS_SHARE = 16 / 132;

type StageTime = Readonly<ReturnType<typeof stageTime>>;

/** Predicts the time of one iteration on the slowest path, by cause. */
export function predictTime(layout: Layout, cal: Calibration = CALIBRATION): TimePrediction {
  const layer = layerTime(layout, cal);
  const outer = outerTime(layout, cal);
  const stages = stageTimes(layout, layer, outer, cal);
  const slowest = stages.reduce((a, b) => (b.forward + b.backward > a.forward + a.backward ? b : a));
  const m = layout.numMicroBatches;
  const pipe = pipelineTime({
    stages,
    numMicroBatches: m,
    virtualStages: layout.virtualStages,
    hop: layout.pp === 1 ? 0 : handOver(layout, cal),
    // Megatron-LM waits for each transfer; in PyTorch's schedules transfers overlap with the stage's compute.
    waits: layout.stack !== 'fsdp2',
  });
  const params = Math.max(...stages.map(({ stage }) => stage.params / layout.model.experts));
  const dp = oncePerStep(layout, params, slowest, cal);
  const host = offloadTime(layout, params);
  const updated = Math.max(...stages.map(({ stage }) => stage.allParams / layout.model.experts));
  const whole = shardedStates(layout).includes('optimizer') ? updated : params;
  const optimizer = layout.offload.optimizer ? host.step : optimizerSeconds(layout, whole, cal);
  const busy = m * (slowest.forward + slowest.backward - slowest.waits);
  const comm = slowest.passes.reduce((sum, pass) => sum + pass.comm, 0) * m;
  const copies = Math.max(0, host.copies - busy);
  const own = pipe.seconds + dp + copies + optimizer + cal.iterationSeconds;
  const seconds = own * slowestOf(layout.gpus / layout.hardware.gpusPerNode, cal.nodeSpread);
  // Collectives wait for the slowest node.
  const exposedComm = comm + m * slowest.waits + pipe.handOvers + dp + copies + (seconds - own);
  const compute = busy - comm + optimizer + cal.iterationSeconds;
  return {
    seconds,
    compute,
    exposedComm,
    bubble: layout.pp === 1 ? 0 : Math.max(0, seconds - compute - exposedComm),
    computeByCause: byCause(slowest, m, optimizer, cal),
    commBytes: commBytes(
      layout,
      stages.map(({ stage }) => stage),
      cal,
    ),
    modelFlopsPerGpu: modelFlops(layout.model, layout.globalBatch, layout.exampleTokens) / layout.gpus,
  };
}

const NOTHING = { forward: NO_PASS, backward: NO_PASS };

/** Returns the slowest node's expected time divided by the mean of n nodes: 1 + spread × √(2 ln n), if times are normal. */
function slowestOf(n: number, spread: number): number {
  return n <= 1 ? 1 : 1 + spread * Math.sqrt(2 * Math.log(n));
}

/** Returns the times of all stages. Between the first and the last stage, stages with equally many layers take equally long. */
function stageTimes(
  layout: Layout,
  layer: LayerTime,
  outer: ReturnType<typeof outerTime>,
  cal: Calibration,
): readonly StageTime[] {
  const between = new Map<number, StageTime>();
  return Array.from({ length: layout.pp }, (_, place) => {
    const stage = stageOf(layout, place);
    const isOuter = stage.isFirst || stage.isLast;
    const time =
      (isOuter ? undefined : between.get(stage.layers)) ?? stageTime(layout, stage, layer, outer, cal);
    if (!isOuter) between.set(stage.layers, time);
    return time;
  });
}

/** Returns the times of one stage for one microbatch. */
function stageTime(
  layout: Layout,
  stage: StageSizes,
  layer: LayerTime,
  outer: ReturnType<typeof outerTime>,
  cal: Calibration,
) {
  const { layers, isFirst, isLast } = stage;
  const first = isFirst ? outer.first : NOTHING;
  const last = isLast ? outer.last : NOTHING;
  const again = addPasses(layer.recompute, layer.backward);
  const waits = unitWaits(layout, layer, stage, cal);
  const times = (pass: PassTime): PassTime => scaledPass(pass, layers);
  const forward = addPasses(times(layer.forward), addPasses(first.forward, last.forward));
  const backward = addPasses(times(again), addPasses(first.backward, last.backward));
  // Each pass ends when the CPU waits for the GPU: at the loss, and at a transfer between stages.
  const seconds = (inside: PassTime, ...outside: PassTime[]): Seconds =>
    layers * passSeconds(inside) + outside.reduce((sum, pass) => sum + passSeconds(pass), 0);
  return {
    stage,
    forward: seconds(layer.forward, first.forward, last.forward) + waits.forward + waits.forwardCopies,
    backward: seconds(again, first.backward, last.backward) + waits.backward + waits.backwardCopies,
    passes: [forward, backward],
    loss: last.forward.elementwise + last.backward.elementwise,
    /** Time in which each microbatch waits for data parallelism's collectives. */
    waits: waits.forward + waits.backward,
    /** Time of the copies on the GPU that these collectives need. */
    copies: waits.forwardCopies + waits.backwardCopies,
  };
}

/** The time in which a microbatch waits for its units' collectives, and the time of the copies that these collectives need. */
interface UnitWaits {
  readonly forward: Seconds;
  readonly backward: Seconds;
  readonly forwardCopies: Seconds;
  readonly backwardCopies: Seconds;
}

/**
 * Returns the time in which a microbatch waits for its units' all-gathers and reductions, which overlap with the previous or
 * next layer. The microbatch waits if a collective takes longer than that layer's compute, for the first all-gather and the last
 * reduction, and because collectives take SMs from compute.
 */
function unitWaits(layout: Layout, layer: LayerTime, stage: StageSizes, cal: Calibration): UnitWaits {
  const { layers, layerParams, embeddingParams, headParams } = stage;
  if (layout.reshardsStages) return reshardedWaits(layout, layer, stage, cal);
  const each = commPerMicroBatch(layout);
  if (!each.gather && !each.reduce) return { forward: 0, backward: 0, forwardCopies: 0, backwardCopies: 0 };
  const comm = unitComm(layout, layerParams, cal);
  const gather = each.gather ? comm.gather : 0;
  const regather = each.gather ? comm.regather : 0;
  const reduce = each.reduce ? comm.reduce : 0;
  // The root (embeddings, head) is gathered first, is whole until its backward, and is reduced after backward.
  const root = unitComm(layout, embeddingParams + headParams, cal);
  const before = each.gather ? root.gather : 0;
  const after = each.reduce ? root.reduce : 0;
  const ahead = gathersAhead(layout);
  const forward = passSeconds(layer.forward);
  const backward = passSeconds(addPasses(layer.recompute, layer.backward));
  const bytes = copyBytes(layout);
  const copied = (bytesEach: number): Seconds =>
    trafficSeconds(bytesEach * layerParams, layout.hardware, cal);
  return {
    forward: before + (ahead ? gather + layers * beside(forward, gather) : layers * gather),
    backward:
      after +
      reduce +
      layers *
        (!overlapsReduction(layout)
          ? regather + reduce
          : ahead
            ? beside(backward, regather + reduce)
            : regather + beside(backward, reduce)),
    forwardCopies: layers * copied(bytes.gather),
    backwardCopies: layers * copied(numRegathers(layout) * bytes.gather + bytes.reduce),
  };
}

/** Returns the waits of a stage whose units are freed after each forward. See [Note: FSDP in pipelines]. */
function reshardedWaits(
  layout: Layout,
  layer: LayerTime,
  { place, layers, layerParams }: StageSizes,
  cal: Calibration,
): UnitWaits {
  const m = layout.numMicroBatches;
  const forwards = gatheringForwards(layout, place);
  const { gather } = unitComm(layout, layerParams, cal);
  const copied = trafficSeconds(copyBytes(layout).gather * layerParams, layout.hardware, cal);
  const backward = passSeconds(addPasses(layer.recompute, layer.backward));
  const [inForward, inBackward] = [forwards / m, (m + 1 - forwards) / m];
  return {
    forward: inForward * (gather + layers * beside(passSeconds(layer.forward), gather)),
    backward: inBackward * (gather + layers * beside(backward, gather)),
    forwardCopies: inForward * layers * copied,
    backwardCopies: inBackward * layers * copied,
  };
}

/** Returns the time that a collective adds to the compute beside which it runs. */
function beside(compute: Seconds, wire: Seconds): Seconds {
  return Math.max(0, wire - compute) + Math.min(wire, compute) * COMM_SMS_SHARE;
}

/** Returns the time to send activations to the next stage, sharded by tp. Source: Narayanan et al. 2021, section 4.1. */
function handOver(layout: Layout, cal: Calibration): Seconds {
  const { tp, cp, dp, hardware, model, microBatch, precision } = layout;
  const place = groupPlaceOf(2, tp * cp * dp, hardware.gpusPerNode);
  const bytes = ((microBatch * model.seq) / cp) * model.dim * ITEM_BYTES[precision];
  const wait = layout.stack === 'fsdp2' ? 0 : cal.handOverSeconds;
  return wait + collectiveSeconds('send', bytes / tp, place, hardware, cal);
}

/** Assumed share of gradients that are complete only when backward ends: those of the first layers and of the embedding. */
const LAST_BUCKET = 0.1;

/** Returns the time of data parallelism's collectives that run once per iteration, without the overlapped part. */
function oncePerStep(layout: Layout, params: number, slowest: StageTime, cal: Calibration): Seconds {
  const each = commPerMicroBatch(layout);
  const comm = unitComm(layout, params, cal);
  const after = afterStep(layout, params, cal).seconds;
  const { embeddingParams, headParams } = slowest.stage;
  const once = layout.reshardsStages ? unitComm(layout, embeddingParams + headParams, cal) : comm;
  const gather = each.gather ? 0 : once.gather;
  const reduce = each.reduce ? 0 : comm.reduce;
  const beside = overlapsReduction(layout) ? slowest.backward : 0;
  return gather + Math.max(reduce - beside, reduce * LAST_BUCKET) + after;
}

function byCause(
  { passes, loss, forward, backward, waits, copies }: StageTime,
  m: number,
  optimizer: Seconds,
  cal: Calibration,
): Record<ComputeCause, Seconds> {
  const total = (cause: 'products' | 'attention' | 'elementwise'): Seconds =>
    m * passes.reduce((sum, pass) => sum + pass[cause], 0);
  const launch =
    m * (forward + backward - waits - copies - passes.reduce((sum, pass) => sum + deviceSeconds(pass), 0));
  return {
    products: total('products'),
    attention: total('attention'),
    elementwise: total('elementwise') + m * (copies - loss),
    loss: m * loss,
    optimizer,
    launch: launch + cal.iterationSeconds,
  };
}

/** The times of a pipeline's stages for one microbatch, and its schedule. */
export interface Pipeline {
  readonly stages: readonly { readonly forward: Seconds; readonly backward: Seconds }[];
  readonly numMicroBatches: number;
  readonly virtualStages: number;
  /** Time of one transfer between neighbouring stages. */
  readonly hop: Seconds;
  /** Whether a stage waits for each transfer, instead of computing at the same time. */
  readonly waits: boolean;
}

/**
 * Returns the time from the first forward to the last backward: the time of all microbatches on the slowest stage, plus 1/v of
 * the time of one microbatch on the other stages (v: the number of virtual stages). 1F1B and GPipe take the same time.
 * Source: Narayanan et al. 2021, section 2.2, for equal stages; if stages differ, the slowest decides, and fill and drain
 * pass through all stages.
 */
export function pipelineTime(pipeline: Pipeline): { readonly seconds: Seconds; readonly handOvers: Seconds } {
  const { stages, numMicroBatches: m, virtualStages: v, hop, waits } = pipeline;
  const times = stages.map(({ forward, backward }) => forward + backward);
  const slowest = Math.max(...times);
  if (stages.length === 1) return { seconds: m * slowest, handOvers: 0 };
  const sum = times.reduce((total, each) => total + each, 0);
  const wires = 2 * hop * v;
  // If transfers overlap with compute, a stage waits only for the time by which they are longer than compute.
  const handOvers = m * (waits ? wires : Math.max(0, wires - slowest));
  const fill = (sum - slowest) / v + 2 * (stages.length - 1) * hop;
  return { seconds: m * slowest + handOvers + fill, handOvers };
}

/**
 * Bytes per parameter that one step reads and writes, without the optimizer's states. Every step reads gradient and parameter
 * and writes the parameter (12); Adam also reads and writes two states (16). fully_shard's norm also reads and scales float32
 * gradients (12). Mixed precision in Megatron-LM and DeepSpeed also reads 16-bit gradients and writes float32 gradients and
 * 16-bit parameters (8). With Adam's states, that is 36 bytes, which agrees with vTrain's rows (20 to 25 ms for 1e9 parameters).
 */
const UPDATE_BYTES: Record<Layout['stack'], number> = { megatron: 20, fsdp2: 24, deepspeed: 20 };

/** Returns the time of the optimizer's step on a rank that has `params` parameters of the model. */
function optimizerSeconds(layout: Layout, params: number, cal: Calibration): Seconds {
  const trained = params * layout.trainedShare;
  const own = shardedStates(layout).includes('optimizer') ? trained / layout.shards : trained;
  const states = 2 * optimizerBytesOf(layout.optimizer)(own);
  return trafficSeconds(own * UPDATE_BYTES[layout.stack] + states, layout.hardware, cal);
}

/** Share of the payload (256 bytes) in a packet: PCIe adds 24 to 28 bytes. Source: PCI Express's transaction layer. */
const PAYLOAD = 256 / (256 + 26);

/** Gradient and parameter are read, the parameter is written, 4 bytes each. Source: DeepSpeed's cpu_adam; torch's AdamW. */
const HOST_UPDATE_BYTES = 12;

/**
 * Parameters that one rank's share of the CPU's cores updates per second. Fitted on Llama-3.1-8B with DeepSpeed's cpu_adam on 8
 * H200, sequences of 8192 tokens (measured/whole-trainings.json); the runs on B200 and with longer sequences were held out.
 */
const HOST_UPDATES = 0.52e9;

/** Bytes per parameter in each direction: DeepSpeed moves 16-bit gradients and parameters, fully_shard its float32 shards. */
const MOVED: Readonly<Record<Layout['stack'], number>> = { deepspeed: 2, fsdp2: 4, megatron: 4 };

/**
 * Returns the time of offload on a rank that has `params` parameters of the model. `step` is the time of the optimizer on the
 * CPU plus the transfer of gradients and parameters, without overlap. `copies` is the time of transfers of shards from the CPU
 * for each all-gather; compute may hide these transfers.
 */
export function offloadTime(layout: Layout, params: number) {
  const { offload, hardware, stack, shards, numMicroBatches, optimizer } = layout;
  const { link, memory } = hostOf(hardware.generation);
  const states = shardedStates(layout);
  const own = states.includes('optimizer') ? params / shards : params;
  const trained = own * layout.trainedShare;
  const moved = trained * HOST_UPDATE_BYTES + 2 * optimizerBytesOf(optimizer)(trained);
  const step = offload.optimizer
    ? Math.max(moved / memory, trained / HOST_UPDATES) + (2 * trained * MOVED[stack]) / link
    : 0;
  const each = commPerMicroBatch(layout).gather ? numMicroBatches : 1;
  const gathers = states.includes('parameter') ? each * (1 + numRegathers(layout)) : 1;
  const copies = offload.parameters ? (gathers * own * MOVED[stack]) / link : 0;
  return { step, copies };
}

/** Returns the bandwidth to a GPU in one direction, and a GPU's share of the CPU's memory bandwidth; bytes per second. */
function hostOf(generation: Generation) {
  const { linkGBps, gigaTransfers } = GENERATIONS[generation].host;
  return { link: linkGBps * 1e9 * PAYLOAD, memory: (gigaTransfers * 8 * 1e9) / 8 };
}

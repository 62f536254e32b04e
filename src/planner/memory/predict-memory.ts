import type { ModelState } from '../../config';
import type { Bytes } from '../../core';
import type { Layout } from '../layout';
import type { Estimate, MemoryPrediction } from '../prediction';
import { shardedStates } from '../stack-rules';
import { holesOf, reservableBytes, workspaceBytes } from './allocator';
import { layerActivations, tokenSizesOf } from './layer-activations';
import { keptOutputs, lossBytesOf, outerActivations, pipelineBuffers } from './outer-activations';
import { type StageSizes, stageOf } from './pipeline-stage';
import { nf4Bytes } from './quantized-weights';
import {
  activationBytesOf,
  freshInStep,
  optimizerStateBytes,
  shardsOfState,
  stateBytesOf,
} from './state-bytes';
import { wholeUnits } from './whole-units';

const GIB = 1024 ** 3;

/**
 * Predicts the memory that PyTorch's caching allocator has reserved at the peak of a step (torch.cuda.max_memory_reserved), on
 * the worst rank, by cause. The context and NCCL's buffers are not included: see bytesOutsideAllocator.
 * Units: GiB in `peak`, bytes elsewhere.
 */
export function predictMemory(layout: Layout): MemoryPrediction {
  const last = layout.pp - 1;
  const { stage, phase } = [...new Set([0, Math.min(1, last), last])]
    .map((place) => ({ stage: place, phase: peakPhase(layout, place) }))
    .reduce((most, candidate) => (sumOf(candidate.phase) > sumOf(most.phase) ? candidate : most));
  return predictionOf(layout, stage, phase);
}

/** Predicts the memory of every stage of a pipeline; predictMemory predicts only the worst stage. */
export function predictStages(layout: Layout): MemoryPrediction[] {
  return Array.from({ length: layout.pp }, (_, stage) =>
    predictionOf(layout, stage, peakPhase(layout, stage)),
  );
}

/** Returns the moment of a step at which a stage holds most memory. */
function peakPhase(layout: Layout, stage: number): MemoryPhase {
  return memoryPhases(layout, stageOf(layout, stage)).reduce((most, phase) =>
    sumOf(phase) > sumOf(most) ? phase : most,
  );
}

function predictionOf(layout: Layout, stage: number, worst: MemoryPhase): MemoryPrediction {
  const phase = underPressure(layout, worst);
  const { params, grads, optimizer, activations, temporary } = phase;
  const peakBytes = sumOf(phase);
  return {
    peak: peakOf(phase, peakBytes, reservableBytes(layout)),
    peakBytes,
    ...{ params, grads, optimizer, activations, temporary },
    phase: phase.name,
    stage,
    largestAssumption: largestAssumption(layout, phase),
  };
}

/** Returns the memory near capacity: the allocator frees holes and the free memory of other streams, but no memory in use. */
function underPressure(layout: Layout, phase: MemoryPhase): MemoryPhase {
  const excess = sumOf(phase) - reservableBytes(layout);
  if (excess <= 0 || excess > phase.holes + phase.cached) return phase;
  const holes = Math.min(excess, phase.holes);
  const gathering = Math.min(excess - holes, phase.cached - phase.cachedGrads);
  const grads = Math.min(excess - holes - gathering, phase.cachedGrads);
  return {
    ...phase,
    grads: phase.grads - grads,
    temporary: phase.temporary - holes - gathering,
    holes: phase.holes - holes,
    mostHoles: phase.holes - holes,
    cached: phase.cached - gathering - grads,
    cachedGrads: phase.cachedGrads - grads,
  };
}

function sumOf({ params, grads, optimizer, activations, temporary }: MemoryPhase): Bytes {
  return params + grads + optimizer + activations + temporary;
}

/** Relative error of the peak: segments grow by whole blocks, and no formula counts small tensors. */
const GRAIN = 0.02;

/** Returns the peak. The low end has no holes and no free memory of other streams; the high end has the worst holes that fit. */
function peakOf(phase: MemoryPhase, reserved: Bytes, reservable: Bytes): Estimate {
  const low = Math.min(reserved - phase.holes - phase.cached, (1 - GRAIN) * reserved);
  const worst = Math.min(reserved - phase.holes + phase.mostHoles, reservable);
  const high = Math.max(worst, (1 + GRAIN) * reserved);
  return { value: reserved / GIB, low: low / GIB, high: high / GIB };
}

function largestAssumption({ recompute, stack, compileLoss, optimizer }: Layout, phase: MemoryPhase): string {
  const states = phase.params + phase.grads + phase.optimizer;
  if (states > phase.activations + phase.temporary) {
    const own =
      optimizer.kind === 'adamW'
        ? ' and two moments in fp32'
        : ` in fp32, and the states of ${optimizer.kind}`;
    return `states have the types that ${stack} stores by default (master${own})`;
  }
  if (phase.name === 'loss' && stack === 'fsdp2' && recompute !== 'none') {
    return compileLoss
      ? 'torch.compile covers the loss as well as the blocks (compileLoss); otherwise the loss needs 8 more bytes per logit'
      : 'the loss runs op by op, with log-probabilities and two gradients in fp32 at once';
  }
  if (recompute === 'selective') {
    return stack === 'fsdp2'
      ? 'selective recompute stores the results of every second matmul, of attention and of reduce-scatters (TorchTitan)'
      : 'selective recompute repeats only core attention (Megatron-LM)';
  }
  return 'each operation saves for backward what it saves in torch 2.6 to 2.13';
}

/** The memory of one rank at one moment of a step, bytes by cause. */
export interface MemoryPhase
  extends Pick<MemoryPrediction, 'params' | 'grads' | 'optimizer' | 'activations' | 'temporary'> {
  readonly name: MemoryPhaseName;
  /** Holes between tensors, as a part of `temporary`; `mostHoles` is their largest possible size. */
  readonly holes: Bytes;
  readonly mostHoles: Bytes;
  /** Memory that tensors of other streams have freed, and that only these streams can use; it is part of the causes' bytes. */
  readonly cached: Bytes;
  /** Part of `cached`: memory of sharded gradients that do not exist at this moment. */
  readonly cachedGrads: Bytes;
}

type MemoryPhaseName =
  | 'loss'
  | "head's backward"
  | "last layer's backward"
  | 'backward of a layer other than the last'
  | 'outer reduction'
  | 'optimizer step';

type Ground = Readonly<ReturnType<typeof groundOf>>;

/** Memory of a moment in addition to the states at rest. */
interface Passing {
  readonly activations: Bytes;
  readonly wholeParams?: Bytes;
  readonly wholeGrads?: Bytes;
  readonly temporary?: Bytes;
}

/**
 * Returns the moments of a step at which a stage can reach its peak.
 *
 * [Note: streams keep their memory] The caching allocator reuses a freed block only in the stream in which it was allocated.
 * FSDP2 gathers in one stream and reduces into sharded gradients in another stream. Each stream keeps its peak memory, so sharded
 * gradients count in every phase, even in a forward that begins without gradients. Source: c10/cuda/CUDACachingAllocator.cpp,
 * whose free blocks match only their own stream.
 */
export function memoryPhases(layout: Layout, stage: StageSizes): MemoryPhase[] {
  const ground = groundOf(layout, stage);
  return [
    ...turnsOf(ground).flatMap((turn) => [...lossPhases(turn), ...backwardPhases(turn)]),
    outerReduction(ground),
    phaseOf(ground, 'optimizer step', { activations: 0, temporary: stepBytes(ground) }),
  ];
}

/**
 * Returns the variants of a stage's memory. If all microbatches of a step are in flight before the first backward, summed
 * gradients exist only after the first microbatch's activations are freed; otherwise they exist at the same time as all
 * activations.
 */
function turnsOf(ground: Ground): Ground[] {
  const { layout, stage, whole, layer, saved } = ground;
  const { numMicroBatches, virtualStages } = layout;
  if (whole.accumulated === 0 || stage.chunksInFlight < numMicroBatches * virtualStages) return [ground];
  return [
    { ...ground, whole: { ...whole, accumulated: 0 } },
    { ...ground, saved: saved - (layer.saved * stage.layers) / virtualStages },
  ];
}

/** Returns what all moments of a stage have in common. */
function groundOf(layout: Layout, stage: StageSizes) {
  const sizes = tokenSizesOf(layout);
  const bytes = stateBytesOf(layout);
  const layer = layerActivations(layout);
  const { model, tp } = layout;
  const logits = stage.isLast ? (sizes.tokens * model.logits) / tp : 0;
  return {
    layout,
    stage,
    sizes,
    bytes,
    whole: wholeUnits(layout, stage, bytes),
    layer,
    /** Activations that are stored by the layers in flight, and outside the layers. */
    saved: stage.layersInFlight * layer.saved + outerActivations(layout, stage, sizes),
    /** Number of logits of one microbatch; 0 except on the last stage. */
    logits,
    /** Bytes of stored logits of earlier microbatches. */
    outputs: Math.max(0, keptOutputs(layout) - 1) * logits * sizes.itemBytes,
  };
}

function lossPhases(ground: Ground): MemoryPhase[] {
  const { layout, stage, sizes, whole, saved, logits, outputs } = ground;
  if (logits === 0) return [];
  const { forward, backward, gradient } = lossBytesOf(layout, sizes);
  // A pipeline stores its output's logits while their gradient is computed; the bytes of a compiled loss include these logits.
  const stays = keptOutputs(layout) > 0 && !layout.compileLoss ? sizes.itemBytes : 0;
  const output = keptOutputs(layout) > 0 ? sizes.itemBytes : 0;
  return [
    phaseOf(ground, 'loss', {
      activations: saved + outputs + logits * Math.max(forward, backward + stays),
      wholeParams: whole.parameters,
    }),
    phaseOf(ground, "head's backward", {
      activations:
        saved + outputs + logits * (gradient + output) + sizes.tokens * sizes.itemBytes * sizes.dim,
      wholeParams: whole.parameters,
      wholeGrads: whole.parameters === 0 ? 0 : stage.headParams * ground.bytes.gathered * layout.trainedShare,
    }),
  ];
}

/**
 * Returns the moments of backward. In the last layer's backward, all activations exist; in another layer's backward, gradients
 * are being reduced.
 */
function backwardPhases(ground: Ground): MemoryPhase[] {
  const { layout, stage, whole, layer, saved, outputs } = ground;
  const moment = { wholeParams: whole.parameters, wholeGrads: whole.gradients };
  const activations = saved + (outputs + lastOutput(ground)) + layer.working;
  const last = phaseOf(ground, "last layer's backward", { ...moment, activations });
  if (layout.reshardsStages && layout.schedule === '1F1B')
    return [last, endOfBackward(ground, { ...moment, activations })];
  if (stage.layers < 2 || whole.reducing === 0) return [last];
  const earlier = { ...moment, activations: activations - layer.saved, temporary: whole.reducing };
  return [last, phaseOf(ground, 'backward of a layer other than the last', earlier)];
}

/** Returns the moment at the first layer of a resharded stage's backward, which has left the other layers whole. */
function endOfBackward(
  ground: Ground,
  { wholeParams, wholeGrads, activations }: Required<Omit<Passing, 'temporary'>>,
): MemoryPhase {
  const { stage, whole, layer } = ground;
  return phaseOf(ground, 'backward of a layer other than the last', {
    activations: activations - (stage.layers - 1) * layer.saved,
    wholeParams: Math.max(wholeParams, whole.outer.parameters),
    wholeGrads,
  });
}

/** Returns the bytes of the last microbatch's logits if outputs are stored. */
function lastOutput({ layout, logits, sizes }: Ground): Bytes {
  return keptOutputs(layout) > 0 ? logits * sizes.itemBytes : 0;
}

/**
 * Returns the moment at which gradients outside the layers are reduced: after all other gradients, when parameters are resharded.
 */
function outerReduction(ground: Ground): MemoryPhase {
  const { whole, outputs, layout } = ground;
  return phaseOf(ground, 'outer reduction', {
    activations: keptOutputs(layout) > 0 ? outputs + lastOutput(ground) : 0,
    wholeParams: whole.outer.parameters,
    wholeGrads: whole.outer.gradients,
    temporary: whole.outer.reducing,
  });
}

/**
 * Returns the number of parameters whose state a rank holds between steps: a shard of all parameters or, if the state is not
 * sharded, all parameters except other ranks' experts.
 */
function heldParams(layout: Layout, { params, allParams }: StageSizes, state: ModelState): number {
  const shards = shardsOfState(layout, state);
  return shards > 1 ? allParams / shards : params;
}

function stepBytes({ layout, stage, bytes }: Ground): Bytes {
  const own = heldParams(layout, stage, 'optimizer');
  if (layout.offload.optimizer) return 0;
  const byGroups = layout.stack === 'deepspeed' && shardedStates(layout).includes('parameter');
  return freshInStep(layout, bytes) * (byGroups ? Math.min(own, SUB_GROUP) : own);
}

/** Returns a rank's bytes of the frozen model that encodes texts. */
function encoderBytes({ textEncoder, precision, shards }: Layout): Bytes {
  if (textEncoder === null) return 0;
  return (activationBytesOf(precision) * textEncoder.params) / (textEncoder.sharded ? shards : 1);
}

/** Parameters of a rank that ZeRO-3 updates at once. Source: DeepSpeed's sub_group_size, runtime/zero/config.py. */
const SUB_GROUP = 1e9;

function phaseOf(ground: Ground, name: MemoryPhaseName, passing: Passing): MemoryPhase {
  const { layout, stage, bytes, whole, layer } = ground;
  const { activations, wholeParams = 0, wholeGrads = 0, temporary = 0 } = passing;
  const { offload } = layout;
  const isOnHost = offload.parameters ? 0 : 1;
  // ZeRO-Offload moves gradients to the CPU's optimizer. Source: DeepSpeed's stage_1_and_2.py, stage3.py and estimators.
  const gradsOnGpu = offload.optimizer && layout.stack === 'deepspeed' ? 0 : isOnHost;
  // fully_shard has gradients only of the used expert; other frameworks have gradient buffers for all experts.
  const trained =
    heldParams(layout, stage, 'gradient') / (layout.stack === 'fsdp2' ? layout.model.experts : 1);
  const resting = {
    params:
      isOnHost * bytes.parameter * heldParams(layout, stage, 'parameter') +
      (layout.baseWeights === null ? 0 : nf4Bytes(layout.model, stage)) +
      encoderBytes(layout),
    grads: gradsOnGpu * bytes.gradient * trained,
    optimizer: offload.optimizer
      ? 0
      : isOnHost * optimizerStateBytes(layout, bytes, heldParams(layout, stage, 'optimizer')),
  };
  const accumulated = name === 'optimizer step' ? 0 : whole.accumulated;
  // At the end of a step, the memory of activations is free for other tensors.
  const isEnd = name === 'outer reduction' || name === 'optimizer step';
  const cachedGrads = whole.gathering > 0 && !isEnd ? resting.grads : 0;
  const buffers = pipelineBuffers(layout, stage, layer.stream);
  const isLoss = name === 'loss' || name === "head's backward";
  const copies = 2 * ground.sizes.tokens * ground.sizes.itemBytes * ground.sizes.dim;
  const holes = isEnd
    ? { usual: 0, most: 0 }
    : holesOf(layout, { wholeLayer: layer.whole, copies, logits: ground.logits, isLoss });
  return {
    name,
    params: resting.params + wholeParams,
    grads: resting.grads + accumulated + wholeGrads,
    optimizer: resting.optimizer,
    activations,
    temporary: temporary + buffers + whole.gathering + whole.buckets + workspaceBytes(layout) + holes.usual,
    holes: holes.usual,
    mostHoles: Math.max(holes.usual, holes.most),
    cached: whole.gathering + cachedGrads,
    cachedGrads,
  };
}

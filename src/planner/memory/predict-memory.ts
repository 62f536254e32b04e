import type { Bytes } from '../../core';
import type { Layout } from '../layout';
import type { Estimate, MemoryPrediction } from '../prediction';
import { reservableBytes } from './allocator';
import { type MemoryPhase, memoryPhases } from './memory-phases';
import { stageOf } from './pipeline-stage';

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

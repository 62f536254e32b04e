import type { Bytes } from '../../../src/core/units';

/** A node's memory by DeepSpeed's estimate for parameters, gradients and optimizer states. */
export interface StatesEstimate {
  readonly cpuBytes: Bytes;
  readonly gpuBytes: Bytes;
}

/** The arguments of both estimators. */
export interface StatesQuestion {
  readonly totalParams: number;
  readonly gpusPerNode: number;
  readonly nodes: number;
  readonly offloadsOptimizer: boolean;
}

/** The safety factor that DeepSpeed adds for host memory. */
const BUFFER_FACTOR = 1.5;

/**
 * ZeRO-2: 2 bytes per parameter with its optimizer on the host, else 4 and 16 for the rank's part.
 * Source: DeepSpeed, docs/code-docs/source/memory.rst, whose printed lines these are; the function's later code counts 2 and 18.
 */
export function estimateZero2ModelStates(question: StatesQuestion): StatesEstimate {
  const { totalParams, gpusPerNode, nodes, offloadsOptimizer } = question;
  const gpus = gpusPerNode * nodes;
  if (offloadsOptimizer) {
    return {
      cpuBytes: Math.floor(totalParams * Math.max(4 * gpus, 16) * BUFFER_FACTOR),
      gpuBytes: 2 * totalParams,
    };
  }
  return {
    cpuBytes: Math.floor(totalParams * 4 * gpusPerNode * BUFFER_FACTOR),
    gpuBytes: 4 * totalParams + Math.floor((16 * totalParams) / gpus),
  };
}

/** ZeRO-3 also needs the largest layer, where parameters are, and whether they are sharded when they are made. */
export interface Zero3StatesQuestion extends StatesQuestion {
  readonly largestLayerParams: number;
  /** Counts only if the optimizer is on the host too. */
  readonly offloadsParameters: boolean;
  /** zero.Init. */
  readonly shardsAtInit: boolean;
}

/**
 * ZeRO-3: the largest layer's whole parameters and gradients (4 bytes), and 18, 2 or 0 bytes for the rank's part.
 * Source: DeepSpeed, deepspeed/runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs.
 */
export function estimateZero3ModelStates(question: Zero3StatesQuestion): StatesEstimate {
  const { totalParams, largestLayerParams, gpusPerNode, nodes, shardsAtInit } = question;
  const part = totalParams / (gpusPerNode * nodes);
  const { onGpu, onHost } = perParameter(question);
  const whole = 4 * gpusPerNode;
  const atInit = shardsAtInit ? 0 : totalParams * whole;
  const lasting =
    onHost === 0 ? (shardsAtInit ? largestLayerParams * whole : 0) : (totalParams * onHost) / nodes;
  return {
    cpuBytes: Math.floor(Math.max(atInit, lasting) * BUFFER_FACTOR),
    gpuBytes: 4 * largestLayerParams + Math.floor(onGpu * part),
  };
}

function perParameter({ offloadsOptimizer, offloadsParameters }: Zero3StatesQuestion) {
  if (!offloadsOptimizer) return { onGpu: 18, onHost: 0 };
  return offloadsParameters ? { onGpu: 0, onHost: 18 } : { onGpu: 2, onHost: 16 };
}

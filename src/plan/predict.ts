import { CALIBRATION, type Calibration } from './calibration';
import type { Layout } from './layout';
import { predictMemory } from './memory/predict-memory';
import type { Prediction } from './prediction';
import { predictTime } from './time/predict-time';
import { secondsEstimate } from './uncertainty';

/**
 * What a layout is expected to take and need: the slowest path's time and the worst rank's memory, by cause, with intervals.
 */
export function predict(layout: Layout, calibration: Calibration = CALIBRATION): Prediction {
  const time = predictTime(layout, calibration);
  const memory = predictMemory(layout);
  const { seconds, largestAssumption, outside } = secondsEstimate(layout, time);
  const { model, globalBatch, gpus, hardware } = layout;
  const tflops = time.modelFlopsPerGpu / time.seconds / 1e12;
  return {
    time,
    seconds,
    tokensPerSecondPerGpu: (globalBatch * model.seq) / time.seconds / gpus,
    modelTflopsPerGpu: tflops,
    mfu: tflops / hardware.tflops,
    memory,
    fits: memory.peakBytes <= hardware.memoryGB * USABLE * 1e9,
    largestAssumption,
    outside,
  };
}

/** Share of the memory that a process's allocator gets. Source: the CUDA context and the driver hold the rest, 1 to 2 GB. */
const USABLE = 0.975;

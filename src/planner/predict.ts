import { CALIBRATION, type Calibration } from './calibration';
import type { Layout } from './layout';
import { fitsOnGpu } from './memory/allocator';
import { predictMemory } from './memory/predict-memory';
import type { Prediction } from './prediction';
import { expertsOutside } from './time/expert-limits';
import { predictTime } from './time/predict-time';
import { secondsEstimate } from './uncertainty';

/**
 * Predicts a layout: the time of the slowest path and the memory of the worst rank, by cause, with intervals.
 */
export function predict(layout: Layout, calibration: Calibration = CALIBRATION): Prediction {
  const time = predictTime(layout, calibration);
  const memory = predictMemory(layout);
  const { seconds, largestAssumption, outside } = secondsEstimate(layout, time, memory);
  const { model, globalBatch, gpus, hardware } = layout;
  const tflops = time.modelFlopsPerGpu / time.seconds / 1e12;
  return {
    time,
    seconds,
    tokensPerSecondPerGpu: (globalBatch * model.seq) / time.seconds / gpus,
    modelTflopsPerGpu: tflops,
    mfu: tflops / hardware.tflops,
    memory,
    fits: fitsOnGpu(layout, memory.peakBytes),
    largestAssumption,
    outside: [...outside, ...expertsOutside(layout)],
  };
}

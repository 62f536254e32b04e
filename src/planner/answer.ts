import type { ConfigReading } from './assumed';
import { type AnyLayout, isPredicted } from './layout';
import type { Estimate, Prediction } from './prediction';

/** One line that `shardlab plan --batch` writes: a prediction under the keys of the batch format. */
export type PlanAnswer = ReturnType<typeof planAnswer> & {
  /** Keys of the line that are not settings, if there are any. */
  readonly ignored?: readonly string[];
  /** The planner's assumptions in place of settings that it does not read, if the line has such settings. */
  readonly assumed?: readonly string[];
};

/** The answer to a line that cannot be planned. */
export interface PlanFailure {
  readonly id: string | number | null;
  readonly error: string;
}

const GIB = 2 ** 30;

/** Returns a prediction in milliseconds, GiB and GB. */
export function planAnswer(id: string | number | undefined, prediction: Prediction) {
  const { time, memory } = prediction;
  const ms = (seconds: number): number => roundToDigits(seconds * 1e3);
  const gib = (bytes: number): number => roundToDigits(bytes / GIB);
  const gb = (bytes: number): number => roundToDigits(bytes / 1e9);
  return {
    ...(id === undefined ? {} : { id }),
    iteration_ms: ms(prediction.seconds.value),
    tokens_per_s_per_gpu: roundToDigits(prediction.tokensPerSecondPerGpu),
    model_tflops_per_gpu: roundToDigits(prediction.modelTflopsPerGpu),
    mfu: roundToDigits(prediction.mfu),
    memory_gib: {
      peak: gib(memory.peakBytes),
      params: gib(memory.params),
      grads: gib(memory.grads),
      optimizer: gib(memory.optimizer),
      activations: gib(memory.activations),
      temporary: gib(memory.temporary),
    },
    time_ms: { compute: ms(time.compute), exposed_comm: ms(time.exposedComm), bubble: ms(time.bubble) },
    comm_gb_per_gpu: Object.fromEntries(
      Object.entries(time.commBytes).map(([axis, bytes]) => [axis, gb(bytes)]),
    ),
    fits: prediction.fits,
    interval: {
      iteration_ms: interval(prediction.seconds, ms),
      peak_gib: interval(memory.peak, roundToDigits),
    },
    largest_assumption: prediction.largestAssumption,
    /** The respects in which the layout differs from the runs to which the planner was fitted. */
    outside: prediction.outside,
  };
}

/**
 * Returns the assumptions that replace settings of a config, and the settings that affect neither time nor memory. A key
 * without entries is left out.
 */
export function readingAnswer({ assumed, withoutEffect }: ConfigReading): Readonly<Record<string, unknown>> {
  return {
    ...(assumed.length === 0 ? {} : { assumed: assumed.map(({ says }) => says) }),
    ...(withoutEffect.length === 0 ? {} : { without_effect: withoutEffect }),
  };
}

/** Returns a layout's settings, under the keys of the batch format; a counted plan has no precision, schedule, attention and compile. */
export function layoutAnswer(layout: AnyLayout): Readonly<Record<string, unknown>> {
  return {
    hardware: layout.hardware.name,
    gpus: layout.gpus,
    stack: layout.stack,
    parallel: {
      dp: layout.dp,
      tp: layout.tp,
      pp: layout.pp,
      cp: layout.cp,
      ep: layout.ep,
      sequence_parallel: layout.sequenceParallel,
      strategy: layout.strategy,
      shards: layout.shards,
    },
    batch: { global: layout.globalBatch, micro: layout.microBatch },
    ...(isPredicted(layout) && { precision: layout.precision }),
    recompute: layout.recompute,
    ...(layout.recomputeEveryNth === 1 ? {} : { recompute_every_nth: layout.recomputeEveryNth }),
    ...(isPredicted(layout) && { schedule: layout.schedule }),
    virtual_stages: layout.virtualStages,
    ...(isPredicted(layout) && { attention: layout.attention, compile: layout.compile }),
    optimizer: layout.optimizer.kind,
    offload: layout.offload,
  };
}

function interval({ low, high }: Estimate, unit: (value: number) => number) {
  return { low: unit(low), high: unit(high) };
}

/** Rounds to six digits: more than a prediction's accuracy, and enough for correct sums. */
function roundToDigits(value: number): number {
  return Number(value.toPrecision(6));
}

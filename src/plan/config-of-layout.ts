import type { StrategyName } from '../config/strategies';
import { STRATEGIES } from '../config/strategies';
import { type Hardware, hardwareOf } from './hardware';
import type { Layout } from './layout';
import type { Place } from './place';
import type { PlannedConfig } from './planned-model';
import { besideFp8, usualReduceDtype } from './stack-rules';

/** Returns the config and the place of exactly this layout; settings that a layout does not have are those of `written`. */
export function configOfLayout(
  layout: Layout,
  written: PlannedConfig,
): { readonly config: PlannedConfig; readonly place: Place } {
  const { stack, gpus, pp, microBatch, numMicroBatches, recompute, recomputeEveryNth, offload } = layout;
  const { attention, cudaGraph, compile, compileLoss, dropout, earlyStop, fp8AllGather, baseWeights } =
    layout;
  const { asyncTensorParallel, dispatcher, overlapExperts, trainedShare, precision, ep } = layout;
  return {
    config: {
      ...written,
      ...(pp === 1
        ? { batch: microBatch, accumulation: numMicroBatches }
        : { batch: microBatch * numMicroBatches, accumulation: 1 }),
      ...(layout.reduceDtype === null ? { mixedPrecision: usualTypes(layout) } : {}),
      activationCheckpointing: recomputeSetting(recompute, recomputeEveryNth),
      offload: { ...Object(written.offload), ...offload },
      parallel: parallelOf(layout, written),
    },
    place: {
      on: hardwareInput(layout.hardware),
      ...{ gpus, stack, attention, compile, compileLoss, dropout, trainedShare },
      ...(earlyStop ? {} : { earlyStop }),
      ...(cudaGraph === 'none' ? {} : { cudaGraph }),
      ...(precision === 'fp8' ? { fp8: true, fp8AllGather } : {}),
      ...(asyncTensorParallel ? { asyncTensorParallel } : {}),
      ...(ep === 1 ? {} : { dispatcher, overlapExperts }),
      ...(baseWeights === null ? {} : { baseWeights }),
    },
  };
}

/** Returns the types of a layout whose gradients are reduced as its framework does by default. */
function usualTypes({ stack, precision }: Layout): PlannedConfig['mixedPrecision'] {
  return { paramDtype: besideFp8(precision), reduceDtype: usualReduceDtype(stack, precision) };
}

function recomputeSetting(
  recompute: Layout['recompute'],
  everyNth: number,
): PlannedConfig['activationCheckpointing'] {
  if (recompute === 'none') return null;
  return recompute === 'full' && everyNth > 1 ? { everyNth } : recompute;
}

function parallelOf(layout: Layout, written: PlannedConfig): PlannedConfig['parallel'] {
  const { strategy, dp, tp, pp, cp, ep, shards, sequenceParallel, virtualStages, numMicroBatches } = layout;
  const degrees = Object.entries({ tp, pp, cp, ep }).filter(([, degree]) => degree > 1);
  const schedule = SCHEDULES[layout.schedule];
  return {
    ...withoutLayout(written),
    strategy,
    ...Object.fromEntries(degrees),
    ...(tp > 1 ? { sequenceParallel } : {}),
    ...(isHybrid(strategy) ? { mesh: { dpReplicate: (dp * cp) / shards, dpShard: shards } } : {}),
    ...(pp > 1 ? { schedule, microbatches: numMicroBatches } : {}),
    ...(pp > 1 && virtualStages > 1 ? { virtualStages } : {}),
  };
}

const SCHEDULES = { GPipe: 'gpipe', '1F1B': '1f1b', interleaved: 'interleaved' } as const;

function isHybrid(strategy: StrategyName): boolean {
  return STRATEGIES[strategy].isHybrid;
}

/** Returns the settings of `parallel` that a layout does not decide. */
function withoutLayout({ parallel = {} }: PlannedConfig): NonNullable<PlannedConfig['parallel']> {
  const {
    strategy: _strategy,
    mesh: _mesh,
    reshardAfterForward: _reshard,
    tp: _tp,
    cp: _cp,
    ep: _ep,
    ...rest
  } = parallel;
  const { pp: _pp, schedule: _schedule, virtualStages: _virtual, microbatches: _micro, ...kept } = rest;
  const { sequenceParallel: _sequence, ...left } = kept;
  return left;
}

/** Returns the hardware's name, with the figures that differ from the published figures. */
function hardwareInput(hardware: Hardware): NonNullable<Place['on']> {
  const published: Readonly<Record<string, unknown>> = { ...hardwareOf(hardware.name) };
  const own = Object.entries(hardware).filter(
    ([key, value]) => key !== 'name' && value !== null && value !== published[key],
  );
  return own.length === 0 ? hardware.name : { like: hardware.name, ...Object.fromEntries(own) };
}

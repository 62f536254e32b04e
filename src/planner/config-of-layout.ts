import { STRATEGIES } from '../config';
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
  const { pp, microBatch, numMicroBatches, recompute, recomputeEveryNth: everyNth, reduceDtype } = layout;
  const { precision, ep, asyncTensorParallel, cudaGraph, earlyStop, baseWeights } = layout;
  const { stack, gpus, attention, compile, compileLoss, fusedNorms, dropout, trainedShare } = layout;
  return {
    config: {
      ...written,
      batch: pp === 1 ? microBatch : microBatch * numMicroBatches,
      accumulation: pp === 1 ? numMicroBatches : 1,
      ...(reduceDtype === null && {
        mixedPrecision: {
          paramDtype: besideFp8(precision),
          reduceDtype: usualReduceDtype(stack, precision),
        },
      }),
      activationCheckpointing: everyNth > 1 ? { everyNth } : recompute === 'none' ? null : recompute,
      offload: { ...Object(written.offload), ...layout.offload },
      parallel: parallelOf(layout, written),
    },
    place: {
      on: hardwareInput(layout.hardware),
      ...{ gpus, stack, attention, compile, compileLoss, dropout, trainedShare },
      ...(fusedNorms && { fusedNorms }),
      ...(!earlyStop && { earlyStop }),
      ...(cudaGraph !== 'none' && { cudaGraph }),
      ...(asyncTensorParallel && { asyncTensorParallel }),
      ...(precision === 'fp8' && { fp8: true, fp8AllGather: layout.fp8AllGather }),
      ...(ep > 1 && { dispatcher: layout.dispatcher, overlapExperts: layout.overlapExperts }),
      ...(baseWeights !== null && { baseWeights }),
    },
  };
}

function parallelOf(layout: Layout, written: PlannedConfig): PlannedConfig['parallel'] {
  const { strategy, dp, tp, pp, cp, ep, shards, sequenceParallel, virtualStages, numMicroBatches } = layout;
  const kept = Object.entries(written.parallel ?? {}).filter(([key]) => !DECIDED.includes(key));
  return {
    ...Object.fromEntries(kept),
    strategy,
    ...Object.fromEntries(Object.entries({ tp, pp, cp, ep }).filter(([, degree]) => degree > 1)),
    ...(cp > 1 && { cpKind: layout.cpKind }),
    ...(layout.reshardsStages && { reshardAfterForward: true }),
    ...(tp > 1 && { sequenceParallel }),
    ...(STRATEGIES[strategy].isHybrid && { mesh: { dpReplicate: (dp * cp) / shards, dpShard: shards } }),
    ...(pp > 1 && {
      schedule: SCHEDULES[layout.schedule],
      microbatches: numMicroBatches,
    }),
    ...(virtualStages > 1 && { virtualStages }),
  };
}

const SCHEDULES = { GPipe: 'gpipe', '1F1B': '1f1b', interleaved: 'interleaved' } as const;

/** The settings of `parallel` that a layout decides. */
const DECIDED: readonly string[] = [
  ...['strategy', 'mesh', 'reshardAfterForward', 'tp', 'cp', 'cpKind', 'ep', 'sequenceParallel'],
  ...['pp', 'schedule', 'virtualStages', 'microbatches'],
];

/** Returns the hardware's name, with the figures that differ from the published figures. */
function hardwareInput(hardware: Hardware): NonNullable<Place['on']> {
  const published: Readonly<Record<string, unknown>> = { ...hardwareOf(hardware.name) };
  const own = Object.entries(hardware).filter(
    ([key, value]) => key !== 'name' && value !== null && value !== published[key],
  );
  return own.length === 0 ? hardware.name : { like: hardware.name, ...Object.fromEntries(own) };
}

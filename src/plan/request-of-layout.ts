import { type Hardware, hardwareOf } from './hardware';
import type { Layout } from './layout';
import type { PlanRequestInput } from './request';

/** The request that means exactly this layout of a model as it was asked for: what to write down, change and plan again. */
export function requestOfLayout(
  layout: Layout,
  { model, seq }: Pick<PlanRequestInput, 'model' | 'seq'>,
): PlanRequestInput {
  const { stack, strategy, dp, tp, pp, cp, ep, shards, sequenceParallel, asyncTensorParallel } = layout;
  const { gpus, precision, recompute, recomputeEveryNth, schedule, virtualStages, attention } = layout;
  const { compile, compileLoss, dropout, optimizer, reduceDtype, offload } = layout;
  const degrees = { dp, tp, pp, cp, ep, dpShard: shards, sequenceParallel, asyncTensorParallel };
  return {
    model,
    ...(seq === undefined ? {} : { seq }),
    hardware: hardwareInput(layout.hardware),
    gpus,
    parallel: { stack, strategy, ...degrees },
    batch: { global: layout.globalBatch, micro: layout.microBatch },
    ...{ precision, recompute, recomputeEveryNth, schedule, virtualStages, attention },
    ...{ compile, compileLoss, dropout },
    optimizerStates: { ...optimizer },
    ...(reduceDtype === null ? {} : { reduceDtype }),
    offload: { ...offload },
  };
}

/** By name, with the figures that are not the published ones. */
function hardwareInput(hardware: Hardware): PlanRequestInput['hardware'] {
  const published: Readonly<Record<string, unknown>> = { ...hardwareOf(hardware.name) };
  const own = Object.entries(hardware).filter(
    ([key, value]) => key !== 'name' && value !== null && value !== published[key],
  );
  return own.length === 0 ? hardware.name : { like: hardware.name, ...Object.fromEntries(own) };
}

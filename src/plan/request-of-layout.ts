import { type Hardware, hardwareOf } from './hardware';
import type { Layout } from './layout';
import type { PlanRequestInput } from './request';

/** Returns the request for exactly this layout, so that a user can store it, change it and plan again. */
export function requestOfLayout(
  layout: Layout,
  { model, seq }: Pick<PlanRequestInput, 'model' | 'seq'>,
): PlanRequestInput {
  const { stack, strategy, dp, tp, pp, cp, ep, shards, sequenceParallel, asyncTensorParallel } = layout;
  const { gpus, precision, recompute, recomputeEveryNth, schedule, virtualStages, attention } = layout;
  const { compile, compileLoss, dropout, optimizer, reduceDtype, commHook, offload } = layout;
  const { trainedShare, baseWeights, textEncoder, exampleTokens } = layout;
  const { dispatcher, overlapExperts, cudaGraph, fp8AllGather } = layout;
  const degrees = {
    ...{ dp, tp, pp, cp, ep, dpShard: shards },
    ...{ sequenceParallel, asyncTensorParallel, fp8AllGather, dispatcher, overlapExperts },
  };
  return {
    model,
    ...(seq === undefined ? {} : { seq }),
    hardware: hardwareInput(layout.hardware),
    gpus,
    parallel: { stack, strategy, ...degrees },
    batch: { global: layout.globalBatch, micro: layout.microBatch },
    ...{ precision, recompute, recomputeEveryNth, schedule, virtualStages, attention, cudaGraph },
    ...{ compile, compileLoss, dropout },
    optimizerStates: { ...optimizer },
    ...(reduceDtype === null ? {} : { reduceDtype }),
    ...(commHook === null ? {} : { commHook }),
    offload: { ...offload },
    trainedShare,
    ...(baseWeights === null ? {} : { baseWeights }),
    ...(exampleTokens === layout.model.seq ? {} : { exampleTokens }),
    ...(textEncoder === null ? {} : { textEncoder: { ...textEncoder } }),
  };
}

/** Returns the hardware's name, with the figures that differ from the published figures. */
function hardwareInput(hardware: Hardware): PlanRequestInput['hardware'] {
  const published: Readonly<Record<string, unknown>> = { ...hardwareOf(hardware.name) };
  const own = Object.entries(hardware).filter(
    ([key, value]) => key !== 'name' && value !== null && value !== published[key],
  );
  return own.length === 0 ? hardware.name : { like: hardware.name, ...Object.fromEntries(own) };
}

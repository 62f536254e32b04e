import { parseTrainConfig, type TrainConfigInput } from '../../config';
import { totalBytes } from '../../ledger';
import { forecastRun } from '../../planner';
import { fromFairScale } from '../../sharding';
import type { Functions } from '../expression';

const GPUS = 8;
const OFFLOADS: Readonly<Record<string, TrainConfigInput['offload']>> = {
  nothing: {},
  optimizer: { optimizer: true },
  parameters: { parameters: true },
};

/** The functions of "Wan with DeepSpeed stage 3, offload and FairScale". */
export const ZERO3_FORMULAS: Functions = {
  /** Bytes of a small model's states at rest on one of 8 GPUs, by a dry run. */
  onDevice: (offload: string) => {
    const run = forecastRun(parseTrainConfig({ model: 'tiny', offload: OFFLOADS[offload] }), GPUS);
    return run === null ? 0 : totalBytes(run.states);
  },
  /** 1 if FairScale's FSDP with its defaults is FULL_SHARD, else 0. */
  isFairScaleFull: () => {
    const silent = (): undefined => undefined;
    const options = { reshard_after_forward: true, flatten_parameters: true };
    return Number(fromFairScale(options, silent).shardingStrategy === 'FULL_SHARD');
  },
};

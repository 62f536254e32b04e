import * as accelerate from './accelerate-multinode/runs';
import type { Experiment } from './entry';
import * as guide from './fsdp-guide/runs';
import * as swift from './fsdp-megatron-swift/runs';
import * as wan from './wan22-fsdp/runs';

/** Every experiment; a claim names the experiment that it needs. */
export const EXPERIMENTS: readonly Experiment[] = [wan, guide, accelerate, swift].flatMap((runs) =>
  Object.values(runs),
);

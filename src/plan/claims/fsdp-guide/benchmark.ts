import { GPUS } from '../../hardware';
import type { PlanRequestInput } from '../../request';
import { modelStates } from '../model-states';

/** The guide's description of the benchmark from which its memory and speed come. */
export const BENCHMARK = {
  params: 1.5e9,
  gpus: 8,
  gpu: 'A100-80G',
  source: "a benchmark of Hugging Face's, not named further",
} as const;

/** The guide's numbers of it, in GB and GB per GPU. */
export const DOCUMENTED = { ddp: 72, free: 10, fsdpTotal: 28, fsdpCard: 3.5 } as const;

export const GB = 1e9;
export const GIB = 2 ** 30;
/** Memory of one GPU, in GB. */
export const CARD = GPUS['A100-80G'].memoryGB;

/** GB of states on one GPU. */
export const STATES = {
  ddp: modelStates(BENCHMARK.params, 'NO_SHARD', BENCHMARK.gpus).stateBytes / GB,
  fsdp: modelStates(BENCHMARK.params, 'FULL_SHARD', BENCHMARK.gpus).stateBytes / GB,
} as const;

/** Returns a request for the published model of that size, GPT-2 XL, with `micro` sequences per GPU. */
export function benchmarkRequest(strategy: 'NO_SHARD' | 'FULL_SHARD', micro: number): PlanRequestInput {
  return {
    model: 'gpt2-xl',
    hardware: BENCHMARK.gpu,
    gpus: BENCHMARK.gpus,
    parallel: { strategy, stack: 'fsdp2' },
    batch: { global: micro * BENCHMARK.gpus, micro },
  };
}

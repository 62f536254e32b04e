import { parseTrainConfig, type StrategyName } from '../../config';
import type { Bytes } from '../../core';
import { noBytes, totalBytes } from '../../ledger';
import { forecastRun, GPUS } from '../../planner';
import { requestNamed } from '../claim';
import type { Functions } from '../expression';
import type { PlanLab } from '../lab';
import { percentFaster } from '../speed';

const WORLD = 8;
const STRATEGIES = [
  'NO_SHARD',
  'ZERO_1',
  'ZERO_2',
  'SHARD_GRAD_OP',
  'HYBRID_SHARD',
  '_HYBRID_SHARD_ZERO2',
] as const satisfies readonly StrategyName[];
const LARGEST = ['param.full', 'param.shard', 'grad.full', 'grad.shard'] as const;
/** Three published GPTs, as small and as large as most models for four V100; the guide's file has two requests for each. */
const ON_ETHERNET = ['gpt2', 'medium', 'xl'];

/** Returns the functions of "PyTorch FSDP acceleration guide". */
export function guideFormulas(lab: PlanLab): Functions {
  return {
    /** The most bytes by which a strategy holds less than FULL_SHARD, at rest or at the peaks (dry run); 0: none holds less. */
    lessThanFullShard: () => {
      const full = heldUnder('FULL_SHARD');
      const less = STRATEGIES.map((strategy) => heldUnder(strategy)).map(({ rest, peaks }) =>
        Math.max(full.rest - rest, full.peaks - peaks),
      );
      return Math.max(0, ...less);
    },
    /** Bytes of whole parameters at the peak of a tiny model on 8 ranks, by a dry run. */
    wholeUnder: (strategy: StrategyName) =>
      forecastRun(parseTrainConfig({ model: 'tiny', parallel: { strategy } }), WORLD)?.peaks['param.full'] ??
      0,
    /** The largest batch per GPU with which GPT-2 XL fits under DDP. */
    largestBatch: () => {
      const request = requestNamed('fsdp-guide', 'ddp');
      const fits = (micro: number): boolean =>
        lab.memory({ ...request, batch: micro }).peak.value * 2 ** 30 <= GPUS['A100-80G'].memoryGB * 1e9;
      let micro = 1;
      while (micro < 256 && fits(micro + 1)) micro += 1;
      return micro;
    },
    /** Percentage by which FULL_SHARD is faster than DDP on Ethernet: the least and the most over models and precisions. */
    onEthernet: (end: 'low' | 'high') => {
      const all = ON_ETHERNET.flatMap((name) =>
        [null, HALF].map((mixedPrecision) => {
          const [sharded, ddp] = [`${name}Sharded`, `${name}Ddp`].map((each) =>
            lab.predict({ ...requestNamed('fsdp-guide', each), mixedPrecision }),
          ) as [Predicted, Predicted]; // two names
          return percentFaster(sharded, ddp).value;
        }),
      );
      return end === 'low' ? Math.min(...all) : Math.max(...all);
    },
  };
}

/** Reductions are in float32, as in TorchTitan. */
const HALF = { paramDtype: 'fp16', reduceDtype: 'fp32' } as const;

type Predicted = ReturnType<PlanLab['predict']>;

/** Returns the bytes of states on one of 8 ranks at rest, and the sum of the peaks of parameters and gradients. */
function heldUnder(strategy: StrategyName): { readonly rest: Bytes; readonly peaks: Bytes } {
  const mesh = strategy.includes('HYBRID') ? { dpReplicate: 2, dpShard: WORLD / 2 } : null;
  const run = forecastRun(parseTrainConfig({ model: 'tiny', parallel: { strategy, mesh } }), WORLD);
  const { states = noBytes(), peaks = noBytes() } = run ?? {};
  const largest = LARGEST.reduce((sum, cause) => sum + peaks[cause], 0);
  return { rest: totalBytes(states), peaks: largest };
}

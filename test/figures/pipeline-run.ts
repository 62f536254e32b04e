import type { PipelineScheduleName } from '../../src/config/settings/pipeline';
import type { RunView } from '../../src/figures/run-view';
import { replay, type TimedAction } from '../../src/sharding/pipeline/replay';
import { actionsOf, type PipelineSizes } from '../../src/sharding/pipeline/schedules';
import { simulateRanks } from '../ledger/simulated-step';

const HALVES = { backwardInput: 'input', backwardWeight: 'weight' } as const;

/** A run of one step of a pipeline whose forward takes 1 ms and whose backward takes 2 ms, on `replicas` data-parallel pipelines. */
export function pipelineRun(name: PipelineScheduleName, sizes: PipelineSizes, replicas = 1): RunView {
  const { numRanks, virtualStages } = sizes;
  const byRank = Array.from({ length: numRanks }, (_, rank) => actionsOf(name, sizes, rank));
  const { actions } = replay(byRank, {
    secondsOf: ({ kind }) => (kind === 'backward' ? 2e-3 : 1e-3) / virtualStages,
  });
  const world = numRanks * replicas;
  const records = simulateRanks({ strategy: 'NO_SHARD', world }).map((record, index) => ({
    ...record,
    spans: actions
      .filter(({ rank }) => rank === Math.floor(index / replicas))
      .map((action) => spanOf(action, record.start, numRanks)),
  }));
  return { strategy: 'NO_SHARD', world, records };
}

function spanOf(
  { kind, microbatch, chunk, rank, start, end }: TimedAction,
  origin: number,
  numRanks: number,
) {
  const half = kind === 'forward' || kind === 'backward' ? undefined : HALVES[kind];
  const pipeline = { half, stage: chunk * numRanks + rank, microbatch, cpu: end - start };
  // Ranks share cores, so an action takes twice its CPU time.
  const times = { start: origin + 2 * start, end: origin + 2 * end };
  return {
    name: kind === 'forward' ? ('forward' as const) : ('backward' as const),
    module: '',
    ...times,
    pipeline,
  };
}

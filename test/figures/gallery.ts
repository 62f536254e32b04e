import { commCauses } from '../../src/figures/comm-causes';
import { commTimeline } from '../../src/figures/comm-timeline';
import { expertLoads } from '../../src/figures/expert-loads';
import type { Figure } from '../../src/figures/figure';
import { lossCurve } from '../../src/figures/loss-curve';
import { memoryFigure, memoryRanks } from '../../src/figures/memory-figure';
import { memoryTimeline } from '../../src/figures/memory-timeline';
import { parityFigure } from '../../src/figures/parity/parity-figure';
import { pipelineGantt } from '../../src/figures/pipeline-gantt';
import { plotNumbers } from '../../src/figures/plot-numbers';
import { compareRuns } from '../../src/figures/run-figures';
import type { RunView } from '../../src/figures/run-view';
import { trafficMatrix } from '../../src/figures/traffic-matrix';
import {
  accumulated,
  emptied,
  LONG,
  LOSSES,
  loadsOf,
  meshRun,
  NODE_RUNS,
  parityOf,
  rounded,
  simulatedRun,
  slower,
  steps,
  stretched,
} from './gallery-runs';
import { pipelineRun } from './pipeline-run';

/** Every kind of figure over ordinary and extreme runs, by name, made again on every call. */
export function gallery(): Record<string, Figure> {
  const four = simulatedRun({ strategy: 'FULL_SHARD', world: 4 });
  const whole = simulatedRun({ strategy: 'NO_SHARD', world: 4 });
  const half = simulatedRun({ strategy: 'SHARD_GRAD_OP', world: 4 });
  const one = simulatedRun({ strategy: 'NO_SHARD', world: 1 });
  const many = simulatedRun({ strategy: 'FULL_SHARD', world: 64, wireMs: 4 });
  const uneven = { ...many, records: many.records.map((record, i) => stretched(record, 9 - (i >> 3))) };
  const long = simulatedRun({ strategy: 'FULL_SHARD', world: 2, blockName: LONG });
  const nothing = { ...one, records: one.records.map(emptied) };
  const summary = simulatedRun({ strategy: 'FULL_SHARD', world: 4, curve: false });
  const { forecast: _, ...unpredicted } = four;
  const wrong = { ...four, forecast: simulatedRun({ strategy: 'FULL_SHARD', world: 5 }).forecast };
  const prefetched = steps({ strategy: 'FULL_SHARD', world: 4 });
  const unprefetched = steps({ strategy: 'FULL_SHARD', world: 4, prefetch: false });
  const recomputed = Object.fromEntries(
    [0, 4, 2, 1].map((every) => [
      every === 0 ? 'none' : every === 1 ? 'full' : `every ${every}`,
      steps({ strategy: 'FULL_SHARD', world: 2, recomputeEvery: every }),
    ]),
  );
  const offloaded = steps({ strategy: 'FULL_SHARD', world: 2, offload: true, recomputeEvery: 1 });
  const runs = { NO_SHARD: whole, SHARD_GRAD_OP: half, FULL_SHARD: four };
  return {
    'own-lines': plotNumbers({ train: LOSSES, test: LOSSES.slice(4) }, { xTitle: 'step', yTitle: 'loss' }),
    'own-bars': plotNumbers({ DDP: [1, 2], FSDP: [3, 1] }, { kind: 'bar', x: ['memory', LONG] }),
    'own-numbers': plotNumbers({ DDP: 18.1, [LONG]: 10.6 }, { yTitle: 'MB' }),
    'own-points': plotNumbers({ a: { x: [0, 3, 5], y: [1, -2, 4] } }, { kind: 'scatter' }),
    'memory-timeline-4': memoryTimeline(four, { rank: 0 }),
    'memory-timeline-1': memoryTimeline(one),
    'memory-timeline-64': memoryTimeline(many),
    'memory-timeline-long-names': memoryTimeline(long),
    'memory-timeline-nothing': memoryTimeline(nothing),
    'memory-timeline-no-curve': memoryTimeline(summary),
    'memory-timeline-guess': memoryTimeline(four).withNote(
      'You 40%, it is 8%: parameters’ share of the peak.',
    ),
    'memory-ranks-4': memoryRanks(four),
    'memory-ranks-1': memoryRanks(one),
    'memory-ranks-64': memoryRanks(uneven),
    'memory-ranks-64-alike': memoryRanks(many),
    'memory-ranks-nothing': memoryRanks(nothing),
    'traffic-4': trafficMatrix(four),
    'traffic-1': trafficMatrix(one),
    'traffic-nothing': trafficMatrix(nothing),
    'traffic-8': trafficMatrix(meshRun(8), { ranksPerNode: 4 }),
    'traffic-16': trafficMatrix({ ...meshRun(16), note: 'which share 2 cores' }, { ranksPerNode: 8 }),
    'traffic-nodes': trafficMatrix(NODE_RUNS.HYBRID_SHARD),
    'compare-comm-nodes': compareRuns(NODE_RUNS, 'comm'),
    'comm-causes-nodes': commCauses(NODE_RUNS.FULL_SHARD),
    'compare-memory': compareRuns(runs, 'memory'),
    'compare-memory-residual': compareRuns({ ...runs, FULL_SHARD: wrong as RunView }, 'memory'),
    'compare-memory-unpredicted': compareRuns(
      { 'a run with a name that goes on and on and on': unpredicted },
      'memory',
    ),
    'compare-memory-logical': compareRuns({ float32: four, bfloat16: rounded(four) }, 'memory'),
    'compare-memory-nothing': compareRuns({ nothing }, 'memory'),
    'compare-loss': compareRuns(runs, 'loss'),
    'pipeline-1f1b': pipelineGantt(
      pipelineRun('1f1b', { numRanks: 4, numMicrobatches: 8, virtualStages: 1 }),
    ),
    'pipeline-interleaved': pipelineGantt(
      pipelineRun('interleaved', { numRanks: 2, numMicrobatches: 4, virtualStages: 2 }, 2),
    ),
    'pipeline-zero-bubble': pipelineGantt(
      pipelineRun('zb', { numRanks: 3, numMicrobatches: 4, virtualStages: 1 }),
    ),
    'comm-timeline-4': commTimeline({ ...four, note: 'which share 2 cores' }),
    'comm-timeline-1': commTimeline(one),
    'comm-timeline-64': commTimeline(many),
    'comm-timeline-long-names': commTimeline(long),
    'comm-timeline-nothing': commTimeline(nothing),
    'comm-causes-4': commCauses(four),
    'comm-causes-1': commCauses(one),
    'comm-causes-64': commCauses(many),
    'compare-timeline': compareRuns(
      { 'no prefetch': { ...unprefetched, note: 'link 2 Gbit/s, 50 µs' }, forwardPrefetch: prefetched },
      'timeline',
    ),
    'compare-time': compareRuns(
      { 'no prefetch': slower(prefetched, 1.4), forwardPrefetch: slower(prefetched, 1) },
      'time',
    ),
    'compare-time-alike': compareRuns(
      { one: slower(prefetched, 1), 'the same again': slower(prefetched, 1) },
      'time',
    ),
    'compare-time-many': compareRuns(
      { ...recomputed, [LONG]: long, nothing, tokens: accumulated(four) },
      'time',
    ),
    'compare-timeline-alike': compareRuns({ one: prefetched, 'the same again': prefetched }, 'timeline'),
    'compare-timeline-one': compareRuns({ FULL_SHARD: four }, 'timeline'),
    'compare-timeline-many': compareRuns(
      { ...recomputed, [LONG]: long, nothing, NO_SHARD: whole },
      'timeline',
    ),
    'compare-comm': compareRuns({ NO_SHARD: whole, SHARD_GRAD_OP: half, FULL_SHARD: four }, 'comm'),
    'compare-comm-residual': compareRuns({ NO_SHARD: whole, FULL_SHARD: wrong as RunView }, 'comm'),
    'compare-comm-tokens': compareRuns(
      { 'accumulation 1': unpredicted, 'accumulation 4': accumulated(unpredicted) },
      'comm',
    ),
    'compare-comm-nothing': compareRuns({ nothing, [LONG]: one }, 'comm'),
    'comm-timeline-recompute': commTimeline(
      simulatedRun({ strategy: 'FULL_SHARD', world: 2, recomputeEvery: 2 }),
    ),
    'compare-memory-timeline': compareRuns(recomputed, 'memoryTimeline'),
    'compare-memory-timeline-host': compareRuns(
      { 'on the device': recomputed.none ?? nothing, 'offload and recompute': offloaded },
      'memoryTimeline',
    ),
    'compare-memory-timeline-many': compareRuns(
      { ...recomputed, [LONG]: long, nothing, summary, offloaded },
      'memoryTimeline',
    ),
    'memory-spaces': memoryFigure(offloaded, { space: 'both' }),
    'memory-spaces-device-only': memoryFigure(four, { space: 'both', rank: 1 }),
    'memory-spaces-nothing': memoryFigure(nothing, { over: 'time', space: 'both' }),
    'loss-live': lossCurve([{ name: 'FULL_SHARD', losses: LOSSES }], {
      speed: '23,456 tokens/s',
      steps: 30,
      marks: [{ step: 12, text: 'reshard to SHARD_GRAD_OP' }],
    }),
    'loss-long-names': lossCurve([
      { name: LONG, losses: LOSSES },
      { name: `${LONG}.2`, losses: LOSSES.map((x) => x + 0.1) },
    ]),
    'loss-validation': lossCurve([
      {
        name: 'FULL_SHARD',
        losses: LOSSES,
        evaluations: LOSSES.flatMap((loss, i) =>
          i % 4 === 3 ? [{ step: i + 1, loss: loss + i * i * 0.01 }] : [],
        ),
      },
    ]),
    'expert-loads': expertLoads(loadsOf(4)),
    'expert-loads-many': expertLoads(loadsOf(16), { layer: 'blocks.1.moe' }),
    'rank-loads': expertLoads(loadsOf(8), { layer: 'blocks.1.moe', by: 'rank' }),
    parity: parityFigure(parityOf(four, whole, 1)),
    'parity-equal': parityFigure(parityOf(four, four, 0)),
    'parity-differs': parityFigure(parityOf(four, whole, 400)),
    'parity-not-finite': parityFigure(parityOf(four, whole, Number.NaN)),
    'loss-none': lossCurve([]),
    'loss-first': lossCurve([{ name: 'FULL_SHARD', losses: [7.6] }]),
    'loss-not-finite': lossCurve([{ name: 'FULL_SHARD', losses: [7.6, 7.1, Number.NaN, Number.NaN] }]),
    'loss-many': lossCurve(
      Array.from({ length: 9 }, (_, i) => ({
        name: `run ${i}, lr ${i}e-4`,
        losses: LOSSES.map((x) => x + i * 0.1),
      })),
    ),
  };
}

import assert from 'node:assert/strict';
import type { Claim, DocumentName } from '../../src/claims/claim';
import { claimsFigure } from '../../src/claims/figures/claims-figure';
import { type Finding, type SettledFinding, VERDICTS, type Verdict } from '../../src/claims/finding';
import type { ClaimResult } from '../../src/claims/survey';
import type { Figure } from '../../src/figures/figure';
import { accuracyFigure } from '../../src/figures/plans/accuracy-figure';
import { planMemory } from '../../src/figures/plans/plan-memory';
import { rankedLayouts } from '../../src/figures/plans/ranked-layouts';
import { reproducedFigure } from '../../src/figures/plans/reproduced-figure';
import { reproducedTable } from '../../src/figures/plans/reproduced-table';
import { scalingCurve } from '../../src/figures/plans/scaling-curve';
import { type TimeRow, timeBreakdown } from '../../src/figures/plans/time-breakdown';
import { type WhatIfKnob, whatIfFigure } from '../../src/figures/plans/what-if';
import type { MeasuredRun } from '../../src/planner/accuracy';
import {
  PUBLISHED_NAMES,
  type PublishedName,
  reproducedRows,
} from '../../src/planner/measured/published-tables';
import { predict } from '../../src/planner/predict';
import type { Estimate } from '../../src/planner/prediction';
import { type Recommendation, recommend } from '../../src/planner/recommend';
import { recommendRequest } from '../../src/planner/recommend-request';

// The numbers here are invented, only to show figures.

/** An estimate with an interval of `share` of the value to both sides. */
export function about(value: number, share = 0.06): Estimate {
  return { value, low: value * (1 - share), high: value * (1 + share) };
}

type Found = Partial<Pick<SettledFinding, 'predicted' | 'measured' | 'by' | 'reading' | 'judged'>>;

/** A claim with a finding. */
export function result(
  id: string,
  documented: Claim['documented'],
  unit: string | null,
  verdict: Verdict,
  found: Found = {},
  document: DocumentName = 'wan22-fsdp',
): ClaimResult {
  const claim: Claim = {
    id,
    document,
    where: '§1',
    zh: '',
    kind: 'memory',
    statement: `What ${id} says`,
    documented,
    unit,
    given: {},
  };
  const base = {
    unit,
    by: '',
    reading: '',
    why: 'Because it is so.',
    evidence: { kind: 'formula', source: '1 - 1 / 8' } as const,
    ...found,
  };
  return { claim, finding: findingOf(verdict, base) };
}

function findingOf(verdict: Verdict, base: Omit<SettledFinding, 'verdict'>): Finding {
  switch (verdict) {
    case 'open': {
      const predicted = typeof base.predicted === 'object' ? base.predicted : about(base.predicted ?? 1);
      return {
        ...base,
        predicted,
        verdict,
        needs: '8 A100',
        command: 'torchrun --nproc_per_node 8 train.py',
      };
    }
    case 'holds partly':
      return { ...base, verdict, part: 'the first part' };
    case 'holds only if':
      return {
        ...base,
        verdict,
        reading: 'holds only if N is 10 GPUs',
        condition: 'N is 10 GPUs',
        otherwise: '8 GPUs save 87.5%',
      };
    default:
      return { ...base, verdict };
  }
}

export const SOME_CLAIMS: readonly ClaimResult[] = [
  result('guide.shard.params', -75, '%', 'off', { predicted: -87.5, by: '12.5 points too low' }),
  result('guide.shard.optimizer', -80, '%', 'holds only if', { predicted: -87.5 }),
  result('guide.comm.rounds', 4, 'rounds', 'off', { predicted: 21, by: '5.25 x too low' }),
  result('swift.mem.adam', 8, 'bytes/parameter', 'holds', { measured: 8 }),
  result('wan.mem.params', 12.8, 'GB', 'off', {
    predicted: 7.15,
    by: '1.79 x too high',
    reading: 'holds only if shards are fp32 and GB means GiB (then 12.6)',
  }),
  result('wan.mem.activations', 22.3, 'GB', 'open', { predicted: about(19, 0.25) }),
  result('wan.arith.samples_per_step', null, null, 'contradicts itself', { by: '2.1 x' }),
  result('guide.perf.fsdp_speedup', 3.2, 'x', 'open', { predicted: about(0.9, 0.08) }),
  result('acc.ranks', 32, 'processes', 'holds', { predicted: 32 }),
  result('acc.time', [10, 20], 'min', 'open', { predicted: about(31, 0.3) }),
  result('wan.launch', null, null, 'holds partly', { by: 'no script' }),
  result('wan.mem.efficiency', 92, '%', 'undefined', {
    predicted: 77.5,
    judged: 'it is not said what is divided',
  }),
  result('wan.model.size', 27e9, 'parameters', 'off', { predicted: 28.58e9, by: '1.06 x too low' }),
];

const DOCUMENT_NAMES: readonly DocumentName[] = [
  'wan22-fsdp',
  'fsdp-guide',
  'wan-deepspeed-zero3',
  'accelerate-multinode',
  'fsdp-megatron-swift',
];

/** `count` claims of all documents and verdicts. */
export function manyClaims(count: number): ClaimResult[] {
  const verdicts = [...VERDICTS, 'holds', 'off', 'holds'] as const;
  return Array.from({ length: count }, (_, i) => {
    const document = DOCUMENT_NAMES[Math.floor(Math.sqrt(i * 7)) % 5] ?? 'fsdp-guide';
    const verdict = verdicts[(i * 7) % verdicts.length] ?? 'off';
    const number = verdict === 'holds' ? 10 : 10 * 1.9 ** Math.sin(i * 2.1);
    return result(`claim.${i}`, i % 4 === 3 ? null : 10, 'GB', verdict, { predicted: number }, document);
  });
}

const GB = 1e9;

const COUNTS = [1, 2, 4, 8, 16, 32, 64, 128];

function efficiency(loss: number) {
  return COUNTS.map((count) => ({
    count,
    value: about(100 - loss * Math.log2(count) ** 1.6, 0.01 * count ** 0.4),
  }));
}

function throughput(perGpu: number, loss: number) {
  return COUNTS.map((count) => ({
    count: count * 4,
    value: about(perGpu * count * 4 * (1 - loss * Math.log2(count))),
  }));
}

const KNOBS: readonly WhatIfKnob[] = [
  knob('microbatch', ['1', '2', '4', '8'], 1, (i) => [2.4 - 0.25 * i, 31 + 17 * i]),
  knob('tp', ['1', '2', '4', '8'], 0, (i) => [1.9 + 0.22 * i * i, 62 - 9 * i]),
  knob('recompute', ['none', 'selective', 'full'], 1, (i) => [1.7 + 0.3 * i, 93 - 28 * i]),
  knob('NIC, Gbit/s', ['25', '100', '200', '400'], 2, (i) => [4.1 / (i + 1) + 0.8, 62]),
];

function knob(
  name: string,
  values: readonly string[],
  base: number,
  at: (i: number) => readonly [number, number],
): WhatIfKnob {
  const settings = values.map((value, i) => {
    const [seconds, memory] = at(i);
    const memoryBytes = about(memory * GB, 0.05);
    return {
      name: value,
      seconds: about(seconds),
      memoryBytes,
      fits: memory < 80,
      isBase: i === base,
      isScaled: false,
    };
  });
  return { knob: name, settings };
}

const TIMES: readonly TimeRow[] = [
  timeRow('dp 8', { products: 0.62, attention: 0.11, elementwise: 0.13, communication: 0.05 }, '46% MFU'),
  timeRow(
    'dp 2 tp 4',
    { products: 0.66, attention: 0.12, elementwise: 0.14, communication: 0.19 },
    '38% MFU',
  ),
  timeRow(
    'dp 2 pp 4',
    { products: 0.62, attention: 0.11, elementwise: 0.13, communication: 0.01, bubble: 0.31 },
    '35% MFU',
  ),
  timeRow('tp 8', { products: 0.71, attention: 0.13, elementwise: 0.15, communication: 0.44 }, '29% MFU'),
];

function timeRow(name: string, seconds: TimeRow['seconds'], note: string): TimeRow {
  const all = { ...seconds, loss: 0.03, optimizer: 0.02, launch: 0.04 };
  const sum = Object.values(all).reduce((a, b) => a + b, 0);
  return { name, seconds: all, total: about(sum), note };
}

/** Runs of 0.2 to 20 s whose predictions differ by some percent, without randomness. */
export function measuredRuns(count: number): MeasuredRun[] {
  return Array.from({ length: count }, (_, i) => {
    const measured = 0.2 * 100 ** ((i * 0.618) % 1);
    const error = 0.07 * Math.sin(i * 12.9) + 0.02 * Math.cos(i * 7.3);
    const baseline = measured * (1 + 0.2 * Math.sin(i * 3.1) + 0.1 * Math.log10(measured));
    return { id: `r${i}`, measured, predicted: measured * (1 + error), baseline, fitted: i % 2 === 0 };
  });
}

const SUBTITLE = 'Llama 3 8B on 64 H100-80G, global batch 512, bf16; predicted.';

/** A search for layouts of Llama 3 8B. */
function searched(place: { readonly gpus: number; readonly hardware?: string }): Recommendation {
  const request = recommendRequest({ model: 'llama3-8b', hardware: 'H100-80G', ...place });
  return recommend(request, { predict, top: 5 });
}

/** Draws the published figures of these tables with the planner's predictions. */
function reproduced(...names: readonly PublishedName[]): Figure {
  const rows = names.flatMap(reproducedRows);
  return reproducedFigure(rows, {
    subtitle: 'Line: predicted interval.',
    table: reproducedTable(rows, { title: '' }),
  });
}

/** The planner's figures over ordinary and extreme rows, by name. */
export function plannedFigures(): Record<string, Figure> {
  const [, second] = DOCUMENT_NAMES;
  return {
    'claims-some': claimsFigure(SOME_CLAIMS),
    'claims-one': claimsFigure(SOME_CLAIMS.slice(0, 1)),
    'claims-none': claimsFigure([]),
    'claims-extreme': claimsFigure([
      result('a.claim.with.a.name.that.goes.on.and.on', 5e12, 'tokens', 'off', { predicted: 1e6 }, second),
      result('zero', 0, '%', 'off', { predicted: 12, by: 'a difference of twelve whole points and more' }),
      result('sign', -18, '%', 'off', { predicted: 3 }),
    ]),
    'claims-many': claimsFigure(manyClaims(97)),
    'plan-memory': planMemory(searched({ gpus: 64 }).ranked[0] ?? assert.fail('nothing fits')),
    'scaling-efficiency': scalingCurve({
      series: [{ name: 'FULL_SHARD', points: efficiency(0.9) }],
      quantity: 'efficiency',
      countedIn: 'nodes',
      measured: [
        { count: 1, value: 100 },
        { count: 2, value: 98.6 },
        { count: 4, value: 96.9 },
      ],
      measuredWhat: 'measured here, links shaped',
      documented: [
        { count: 32, value: 85, relation: '>', id: 'wan.scale.32' },
        { count: 128, value: 76, id: 'wan.scale.128' },
      ],
      subtitle: 'Share of linear speed-up against one node of 8 A100-80G; NIC 200 Gbit/s a GPU.',
    }),
    'scaling-throughput': scalingCurve({
      series: [
        { name: 'NIC 200 Gbit/s', points: throughput(1200, 0.02) },
        { name: 'NIC 25 Gbit/s', points: throughput(1100, 0.1) },
      ],
      quantity: 'tokensPerSecond',
      countedIn: 'GPUs',
      subtitle: 'Wan 27B on A100-80G, FULL_SHARD; dotted: linear.',
    }),
    'scaling-one': scalingCurve({
      series: [{ name: 'FULL_SHARD', points: [{ count: 8, value: { value: 900, low: 900, high: 900 } }] }],
      quantity: 'tokensPerSecond',
      countedIn: 'GPUs',
      subtitle: 'One point.',
    }),
    'what-if': whatIfFigure(KNOBS, { capacityBytes: 80 * GB, subtitle: `${SUBTITLE} Bold: the layout.` }),
    'what-if-one': whatIfFigure(KNOBS.slice(1, 2), { capacityBytes: 80 * GB, subtitle: SUBTITLE }),
    'what-if-many': whatIfFigure([...KNOBS, ...KNOBS.slice(0, 3)], {
      capacityBytes: 80 * GB,
      subtitle: SUBTITLE,
    }),
    'time-breakdown': timeBreakdown(TIMES, SUBTITLE),
    'time-breakdown-one': timeBreakdown(TIMES.slice(0, 1), SUBTITLE),
    accuracy: accuracyFigure(measuredRuns(720), {
      baselineName: 'constant efficiency',
      subtitle:
        '1 node of A100, 720 runs of Megatron-DeepSpeed; band: ±8%. Grey: what the constants were fitted on.',
    }),
    'accuracy-few': accuracyFigure(
      measuredRuns(6).map(({ baseline: _, ...run }) => ({ ...run, fitted: false })),
      { subtitle: 'This machine’s own runs.' },
    ),
    'reproduced-rows': reproduced('fms-fsdp'),
    'reproduced-memory': reproduced('torchtitan-h200'),
    'reproduced-tables': reproduced('megatron-table-1', 'megatron-table-2', 'zero-table-1'),
    'reproduced-all': reproduced(...PUBLISHED_NAMES),
    'ranked-layouts': rankedLayouts(searched({ gpus: 64 })),
    'ranked-none-fits': rankedLayouts(searched({ gpus: 1 })),
    'ranked-one': rankedLayouts({ ...searched({ gpus: 8 }), losses: [] }),
  };
}

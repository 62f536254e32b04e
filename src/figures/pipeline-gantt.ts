import type { PipelineScheduleName } from '../config/settings/pipeline';
import { ConfigError } from '../core/errors';
import type { Seconds } from '../core/units';
import type { SpanRecord, StepRecord } from '../ledger/record';
import { type Replay, replay, type TimedAction } from '../parallel/pipeline/replay';
import {
  type Action,
  type ActionKind,
  type ActionTimes,
  bubbleShare,
  mostInFlight,
  type PipelineSizes,
} from '../parallel/pipeline/schedules';
import { createFigure, type Figure, quantity, titleOf } from './figure';
import { counted, percent, short, timeScale } from './format';
import { rowAxis, titled } from './grammar/axes';
import { bold, safe, soft, strong } from './grammar/ink';
import { bars, note } from './grammar/marks';
import { type Fill, NEUTRAL_FILL, PHASE_FILL, WAIT_FILL, WAIT_OUTLINE } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import { STATIC_WIDTH } from './grammar/template';
import { fits } from './grammar/text-width';
import { type RunView, recordsOfStep } from './run-view';
import { mean, spreadOf } from './spread';
import { lastSteps, typicalStep } from './step-times';
import { createTable } from './table';

const SIZES = { left: 62, right: 118, row: 34, top: 92, between: 74, foot: 48 } as const;

/** A pipeline as its ranks' spans show it: the actions of every rank, in order, with the CPU time that they took. */
interface RecordedPipeline {
  readonly sizes: PipelineSizes;
  readonly splitsBackward: boolean;
  readonly byRank: readonly (readonly TakenAction[])[];
  /** The number of pipelines with other data. */
  readonly numReplicas: number;
}

interface TakenAction extends Action {
  readonly seconds: Seconds;
}

/** How a schedule's time is drawn. */
interface GanttPanel {
  readonly name: string;
  readonly replayed: Replay;
  readonly unit: { readonly divisor: number; readonly text: string };
}

/**
 * Draws the schedule of a pipeline's step, a row per rank: as the schedule predicts it for equal stages, and as it ran. Ranks share
 * cores, and an idle rank speeds the others up. So "as it ran" replays the CPU time of each action through the schedule, as if each rank
 * had a core. Without `step`, these times are medians over the last steps with the same schedule. Throws: CONFIG if the step has no
 * pipeline.
 */
export function pipelineGantt(run: RunView, step?: number): Figure {
  const records = recordsOfStep(run.records, step ?? pipelineStep(run));
  const pipelines = step === undefined ? alikePipelines(run, records) : [recordedPipeline(records)];
  const { sizes, splitsBackward, byRank, numReplicas } = typicalPipeline(pipelines);
  const { numRanks, numMicrobatches, virtualStages } = sizes;
  const planned = replay(byRank, { secondsOf: ({ kind }) => (kind === 'backward' ? 2 : 1) / virtualStages });
  const secondsOf = new Map(byRank.flatMap((own) => own.map((action) => [action as Action, action.seconds])));
  const ran = replay(byRank, { secondsOf: (action) => secondsOf.get(action) ?? 0 });
  const name: PipelineScheduleName = splitsBackward ? 'zb' : virtualStages > 1 ? 'interleaved' : '1f1b';
  const times = splitsBackward ? meanTimes(byRank) : undefined;
  const formula = bubbleShare(name, sizes, times);
  const scale = timeScale(ran.seconds);
  const panels: GanttPanel[] = [
    {
      name: 'As predicted for equal stages',
      replayed: planned,
      unit: { divisor: 1, text: 'time of one forward' },
    },
    {
      name: 'As it ran',
      replayed: ran,
      unit: { divisor: scale.divisor, text: `${scale.unit} of CPU time, replayed with a core per rank` },
    },
  ];
  const merged = [
    ...(pipelines.length === 1 ? [] : [` Medians over ${counted(pipelines.length, 'step')}.`]),
    ...(numReplicas === 1 ? [] : [` Means over ${counted(numReplicas, 'pipeline')}.`]),
  ].join('');
  return createFigure({
    title: titleOf(
      `${numMicrobatches} ${numMicrobatches === 1 ? 'microbatch' : 'microbatches'} on ${counted(numRanks, 'rank')} leave ${percent(ran.bubble)} of their time idle`,
    ),
    subtitle:
      `${run.strategy}, step ${records[0].step}${run.note === undefined ? '' : `, ${safe(run.note)}`}.${merged}<br>` +
      `Bubble: ${formulaText(sizes, times)} = ${percent(formula)} by the formula, ${percent(ran.bubble)} as it ran.`,
    ...plotGantt(panels, byRank),
    quantities: {
      bubble: quantity(ran.bubble * 100, '%', (share) => `ranks are idle for ${share} of the step`),
    },
    table: createTable(panels.flatMap(({ name: panel, replayed }) => rowsOf(panel, replayed, numRanks))),
  });
}

function formulaText(sizes: PipelineSizes, times?: ActionTimes): string {
  const { numRanks: p, numMicrobatches: m, virtualStages: v } = sizes;
  if (times !== undefined) {
    const { forward: f, backwardInput: b, backwardWeight: w } = times;
    const idle = `(p-1)${w <= Math.min(f, b) ? '(F+B-W)' : f > b ? 'F' : 'B'}`;
    return `${idle}/(m(F+B+W)+${idle})`;
  }
  const [letters, work] = v > 1 ? ['vm', v * m] : ['m', m];
  return `(p-1)/(${letters}+p-1) = ${p - 1}/${work + p - 1}`;
}

/** Returns the mean time of each kind of action, over ranks and microbatches. */
function meanTimes(byRank: RecordedPipeline['byRank']): ActionTimes {
  const of = (kind: ActionKind): Seconds =>
    mean(byRank.flatMap((own) => own.filter((action) => action.kind === kind).map(({ seconds }) => seconds)));
  return { forward: of('forward'), backwardInput: of('backwardInput'), backwardWeight: of('backwardWeight') };
}

/** Returns the last steps' step with a pipeline that is nearest to their medians. */
function pipelineStep(run: RunView): number {
  const [typical] = typicalStep(run, (records) => records.some(({ spans }) => spans.some(isPipelineSpan)));
  if (typical === undefined) throw noPipeline();
  return typical.step;
}

/** Returns the pipelines of the last steps that ran the same actions as the step of `records`. */
function alikePipelines(run: RunView, records: readonly StepRecord[]): readonly RecordedPipeline[] {
  const own = recordedPipeline(records);
  const steps = lastSteps(run).filter((step) => step.some(({ spans }) => spans.some(isPipelineSpan)));
  const alike = steps.map(recordedPipeline).filter((other) => orderOf(other) === orderOf(own));
  return alike.length === 0 ? [own] : alike;
}

function orderOf({ byRank }: RecordedPipeline): string {
  return JSON.stringify(
    byRank.map((own) => own.map(({ kind, microbatch, chunk }) => [kind, microbatch, chunk])),
  );
}

/** Returns the pipeline of several steps with the same actions; each action has the median of its times. */
function typicalPipeline(pipelines: readonly RecordedPipeline[]): RecordedPipeline {
  const [first] = pipelines as readonly [RecordedPipeline]; // there is one per step
  const medianOf = (rank: number, i: number): Seconds =>
    spreadOf(pipelines.map(({ byRank }) => byRank[rank]?.[i]?.seconds ?? 0)).median;
  const byRank = first.byRank.map((own, rank) =>
    own.map((action, i) => ({ ...action, seconds: medianOf(rank, i) })),
  );
  return { ...first, byRank };
}

type PipelineSpan = SpanRecord & { readonly pipeline: NonNullable<SpanRecord['pipeline']> };

function isPipelineSpan(span: SpanRecord): span is PipelineSpan {
  return span.pipeline !== undefined;
}

/** Reads the pipeline from spans; ranks with the same stages are replicas, of which each action has the mean time. */
function recordedPipeline(records: readonly StepRecord[]): RecordedPipeline {
  const replicas = new Map<string, PipelineSpan[][]>();
  for (const { spans } of records) {
    const own = spans.filter(isPipelineSpan);
    if (own.length === 0) continue;
    const key = [...new Set(own.map(({ pipeline }) => pipeline.stage))].sort((a, b) => a - b).join();
    replicas.set(key, [...(replicas.get(key) ?? []), own]);
  }
  const ordered = [...replicas].sort(([a], [b]) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
  const [first] = ordered;
  if (first === undefined) throw noPipeline();
  const virtualStages = first[0].split(',').length;
  const spans = ordered.flatMap(([, own]) => own.flat());
  const numMicrobatches = 1 + Math.max(...spans.map(({ pipeline }) => pipeline.microbatch));
  return {
    sizes: { numRanks: ordered.length, numMicrobatches, virtualStages },
    splitsBackward: spans.some(({ pipeline }) => pipeline.half !== undefined),
    byRank: ordered.map(([, own]) => meanActions(own, ordered.length)),
    numReplicas: first[1].length,
  };
}

function meanActions(replicas: readonly (readonly PipelineSpan[])[], numRanks: number): TakenAction[] {
  const [first = []] = replicas;
  return first.map((span, i) => {
    const times = replicas.flatMap((own) => own[i] ?? []).map(secondsIn);
    const { stage, microbatch } = span.pipeline;
    return { kind: kindOf(span), microbatch, chunk: Math.floor(stage / numRanks), seconds: mean(times) };
  });
}

function secondsIn({ start, end, pipeline: { cpu } }: PipelineSpan): Seconds {
  return cpu ?? end - start;
}

function kindOf({ name, pipeline: { half } }: PipelineSpan): ActionKind {
  if (name === 'forward') return 'forward';
  return half === undefined ? 'backward' : half === 'input' ? 'backwardInput' : 'backwardWeight';
}

function noPipeline(): ConfigError {
  return new ConfigError(
    'these steps ran no pipeline; run schedule.step(x, { target }) of Schedule1F1B or another schedule, then draw again',
  );
}

/** The fills and names of actions. */
const KINDS: Readonly<Record<ActionKind, { readonly name: string; readonly fill: Fill }>> = {
  forward: { name: 'forward', fill: PHASE_FILL.forward },
  backward: { name: 'backward', fill: PHASE_FILL.backward },
  backwardInput: { name: 'backward of the input', fill: PHASE_FILL.backward },
  backwardWeight: { name: 'backward of parameters', fill: NEUTRAL_FILL },
};

/** Draws the panels below each other; a row is a rank of the pipeline, and its bubbles are hatched. */
function plotGantt(panels: readonly GanttPanel[], byRank: readonly (readonly Action[])[]) {
  const body = byRank.length * SIZES.row;
  const pixels = panels.length * body + (panels.length - 1) * SIZES.between;
  const made = panels.map((panel, i): Panel => {
    const top = i * (body + SIZES.between);
    const down = [Math.max(0, 1 - (top + body) / pixels), 1 - top / pixels] as const;
    return ganttPanel(panel, byRank, { down, isFirst: i === 0 });
  });
  const { top, left, right, foot } = SIZES;
  return plot({ top, left, right, pixels, foot, legend: 'edge' }, made);
}

interface PanelPlace {
  readonly down: readonly [number, number];
  readonly isFirst: boolean;
}

function ganttPanel(
  { name, replayed, unit }: GanttPanel,
  byRank: readonly (readonly Action[])[],
  { down, isFirst }: PanelPlace,
): Panel {
  const end = replayed.seconds / unit.divisor;
  const perUnit = (STATIC_WIDTH - SIZES.left - SIZES.right) / (end * 1.01);
  const kinds = [...new Set(replayed.actions.map(({ kind }) => kind))];
  const traces = kinds.map((kind) => {
    const items = replayed.actions
      .filter((action) => action.kind === kind)
      .map((action) => barOf(action, unit.divisor, perUnit));
    const { name: title, fill } = KINDS[kind];
    return bars(items, { fill, hover: HOVER, width: 0.74, ...(isFirst ? { name: title } : {}) });
  });
  const idle = byRank
    .flatMap((_, rank) => bubblesOf(replayed, rank))
    .map(({ rank, start, end: to }) => ({
      at: rank,
      from: start / unit.divisor,
      length: (to - start) / unit.divisor,
      said: `rank ${rank} is idle`,
    }));
  const bubbles = { fill: WAIT_FILL, line: WAIT_OUTLINE, hover: HOVER, width: 0.6 } as const;
  const live = byRank.map((own, rank) =>
    note(1.006, rank, `${bold(String(mostInFlight(own)))} ${soft('live at most')}`, { xref: 'paper' }),
  );
  return {
    x: { range: [0, end * 1.01], ...titled(unit.text, 2) },
    y: { ...rowAxis(byRank.map((_, rank) => strong(`rank ${rank}`))), domain: down },
    heading: name,
    aside: ` ${percent(replayed.bubble)} idle`,
    data: [
      ...traces,
      ...(idle.length === 0 ? [] : [bars(idle, { ...bubbles, ...(isFirst ? { name: 'bubble' } : {}) })]),
    ],
    annotations: live,
  };
}

const HOVER = '%{customdata}<extra></extra>';

function barOf({ kind, microbatch, chunk, rank, start, end }: TimedAction, divisor: number, perUnit: number) {
  const text = chunk === 0 ? `${microbatch}` : `${microbatch}.${chunk}`;
  const length = (end - start) / divisor;
  return {
    at: rank,
    from: start / divisor,
    length,
    text: fits(text, 10, length * perUnit) ? text : '',
    said: `${KINDS[kind].name} of microbatch ${microbatch}, chunk ${chunk} of rank ${rank}<br>${short(length)}`,
  };
}

/** Returns the times in which a rank has nothing to do. */
function bubblesOf({ actions, seconds }: Replay, rank: number) {
  const own = actions.filter((action) => action.rank === rank);
  const ends = [0, ...own.map(({ end }) => end)];
  const starts = [...own.map(({ start }) => start), seconds];
  return starts.flatMap((start, i) => {
    const from = ends[i] ?? 0;
    return start - from > seconds * 1e-6 ? [{ rank, start: from, end: start }] : [];
  });
}

function rowsOf(panel: string, { actions }: Replay, numRanks: number) {
  return actions.map(({ kind, microbatch, chunk, rank, start, end }) => {
    return { panel, rank, stage: chunk * numRanks + rank, kind, microbatch, start, end };
  });
}

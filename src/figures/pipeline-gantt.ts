import type { PipelineScheduleName } from '../config';
import { ConfigError, mean, median, rankNames, type Seconds } from '../core';
import type { SpanRecord, StepRecord } from '../ledger';
import {
  type Action,
  type ActionKind,
  type ActionTimes,
  bubbleShare,
  mostInFlight,
  type PipelineSizes,
  type Replay,
  replay,
  type TimedAction,
} from '../sharding';
import { createFigure, type Figure, quantity } from './figure';
import { counted, percent, short, timeScale } from './format';
import { rowAxis, titled } from './grammar/axes';
import { bold, fits, safe, soft, strong, unescaped, widestLabel } from './grammar/ink';
import { bars, note } from './grammar/marks';
import { type Fill, NEUTRAL_FILL, PHASE_FILL, WAIT_FILL, WAIT_OUTLINE } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import { STATIC_WIDTH } from './grammar/template';
import { nameOf, type RunView, recordsOfStep } from './run-view';
import { lastSteps, typicalStep } from './step-times';
import { createTable } from './table';

const SIZES = { right: 118, row: 34, top: 92, between: 74, foot: 48 } as const;

/** A panel with the times of a schedule: its name, the times, and the unit of the time axis. */
/** Says how many microbatches and stages a pipeline has, as '8 microbatches on 4 stages'. */
function sizeWords({
  numRanks,
  numMicrobatches,
  virtualStages,
}: Readonly<Record<'numRanks' | 'numMicrobatches' | 'virtualStages', number>>): string {
  const microbatches = `${numMicrobatches} ${numMicrobatches === 1 ? 'microbatch' : 'microbatches'}`;
  return `${microbatches} on ${numRanks} ${virtualStages > 1 ? `× ${virtualStages} ` : ''}stages`;
}

interface GanttPanel {
  readonly name: string;
  readonly replayed: Replay;
  readonly unit: { readonly divisor: number; readonly text: string };
}

/**
 * Draws a pipeline's step twice, with a row per rank: as the schedule predicts the step for equal stages, and as the step ran.
 * Ranks share cores, so an idle rank speeds the other ranks up. Therefore the second panel replays the CPU time of each action
 * through the schedule, as if each rank had a core. Without `step`, these times are medians over the last steps with the same
 * schedule. Throws: CONFIG if the step has no pipeline.
 */
export function pipelineGantt(run: RunView, step?: number): Figure {
  const records = recordsOfStep(run.records, step ?? pipelineStep(run));
  const pipelines = step === undefined ? alikePipelines(run, records) : [recordedPipeline(records)];
  const { sizes, splitsBackward, byRank, ranks } = typicalPipeline(pipelines);
  const { virtualStages } = sizes;
  const names = ranks.map(rankNames);
  const numAlike = ranks[0]?.length ?? 1;
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
      name: 'Replayed with a core per rank',
      replayed: ran,
      unit: { divisor: scale.divisor, text: `${scale.unit} of CPU time, replayed with a core per rank` },
    },
  ];
  const merged = [
    ...(pipelines.length === 1 ? [] : [` Medians over ${counted(pipelines.length, 'step')}.`]),
    ...(numAlike === 1 ? [] : [` A row is the mean of ${numAlike} ranks.`]),
  ].join('');
  return createFigure({
    runName: nameOf(run),
    title: [
      `${sizeWords(sizes)}: ranks are idle for ${unescaped(percent(ran.bubble))} of the step`,
      `${sizeWords(sizes)}: idle for ${unescaped(percent(ran.bubble))} of the step`,
    ],
    subtitle:
      `${run.strategy}, step ${records[0].step}, ${counted(run.world, 'rank')}${run.note === undefined ? '' : `, ${safe(run.note)}`}.${merged}<br>` +
      `Bubble: ${formulaText(sizes, times)} = ${percent(formula)} by the formula, ${percent(ran.bubble)} as replayed.${unequalText(byRank)}`,
    ...plotGantt(panels, byRank, names),
    quantities: {
      bubble: quantity(ran.bubble * 100, '%', (share) => `ranks are idle for ${share} of the step`),
    },
    table: createTable(panels.flatMap(({ name: panel, replayed }) => rowsOf(panel, replayed, names))),
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

/**
 * Says how much longer the slowest rank computes than the mean, because the formula does not count this difference; '' if the
 * difference is small.
 */
function unequalText(byRank: RecordedPipeline['byRank']): string {
  const busy = byRank.map((own) => own.reduce((sum, { seconds }) => sum + seconds, 0));
  const slowest = busy.indexOf(Math.max(...busy));
  const ratio = (busy[slowest] ?? 0) / mean(busy);
  if (!(ratio >= 1.25)) return '';
  return `<br>Stages are unequal: rank ${slowest} computes ${short(ratio)} times as long as the mean; stageSplit 'time' makes times similar.`;
}

/** Returns the mean time of each kind of action, over ranks and microbatches. */
function meanTimes(byRank: RecordedPipeline['byRank']): ActionTimes {
  const of = (kind: ActionKind): Seconds =>
    mean(byRank.flatMap((own) => own.filter((action) => action.kind === kind).map(({ seconds }) => seconds)));
  return { forward: of('forward'), backwardInput: of('backwardInput'), backwardWeight: of('backwardWeight') };
}

/** The fills and names of actions. */
const KINDS: Readonly<Record<ActionKind, { readonly name: string; readonly fill: Fill }>> = {
  forward: { name: 'forward', fill: PHASE_FILL.forward },
  backward: { name: 'backward', fill: PHASE_FILL.backward },
  backwardInput: { name: 'backward of the input', fill: PHASE_FILL.backward },
  backwardWeight: { name: 'backward of parameters', fill: NEUTRAL_FILL },
};

/** Draws the panels below each other; a row is a rank of the pipeline, and its bubbles are hatched. */
function plotGantt(
  panels: readonly GanttPanel[],
  byRank: readonly (readonly Action[])[],
  names: readonly string[],
) {
  const body = byRank.length * SIZES.row;
  const pixels = panels.length * body + (panels.length - 1) * SIZES.between;
  const made = panels.map((panel, i): Panel => {
    const top = i * (body + SIZES.between);
    const down = [Math.max(0, 1 - (top + body) / pixels), 1 - top / pixels] as const;
    return ganttPanel(panel, byRank, { down, isFirst: i === 0, names });
  });
  const { top, right, foot } = SIZES;
  const left = leftOf(names);
  return plot({ top, left, right, pixels, foot, legend: 'edge' }, made);
}

/** Returns the width, in pixels, of the room for the rows' names. */
function leftOf(names: readonly string[]): number {
  return 22 + widestLabel(names);
}

interface PanelPlace {
  readonly down: readonly [number, number];
  readonly isFirst: boolean;
  readonly names: readonly string[];
}

function ganttPanel(
  { name, replayed, unit }: GanttPanel,
  byRank: readonly (readonly Action[])[],
  { down, isFirst, names }: PanelPlace,
): Panel {
  const end = replayed.seconds / unit.divisor;
  const perUnit = (STATIC_WIDTH - leftOf(names) - SIZES.right) / (end * 1.01);
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
      said: `${names[rank]}: idle`,
    }));
  const bubbles = { fill: WAIT_FILL, line: WAIT_OUTLINE, hover: HOVER, width: 0.6 } as const;
  const live = byRank.map((own, rank) =>
    note(1.006, rank, `${bold(String(mostInFlight(own)))} ${soft('in flight at most')}`, { xref: 'paper' }),
  );
  return {
    x: { range: [0, end * 1.01], ...titled(unit.text, 2) },
    y: { ...rowAxis(names.map(strong)), domain: down },
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
    // A narrow 1 is measured as wide as any digit: else 11 would have a label where 10 and 12 have none.
    text: fits(text.replaceAll('1', '0'), 10, length * perUnit) ? text : '',
    said: `${KINDS[kind].name} of microbatch ${microbatch}, chunk ${chunk}<br>${short(length)}`,
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

function rowsOf(panel: string, { actions }: Replay, names: readonly string[]) {
  return actions.map(({ kind, microbatch, chunk, rank, start, end }) => {
    return {
      panel,
      ranks: names[rank] ?? '',
      stage: chunk * names.length + rank,
      kind,
      microbatch,
      start,
      end,
    };
  });
}

/** A pipeline as its ranks' spans show it: the actions of every rank, in order, with the CPU time of each action. */
interface RecordedPipeline {
  readonly sizes: PipelineSizes;
  readonly splitsBackward: boolean;
  readonly byRank: readonly (readonly TakenAction[])[];
  /**
   * For each entry of `byRank`, the job's ranks that run the entry's actions, with different data or with different parts of
   * the same stages.
   */
  readonly ranks: readonly (readonly number[])[];
}

interface TakenAction extends Action {
  readonly seconds: Seconds;
}

/** Returns the step nearest to the last steps' medians, among the last steps with a pipeline. */
function pipelineStep(run: RunView): number {
  const [typical] = typicalStep(run, (records) => records.some(({ spans }) => spans.some(isPipelineSpan)));
  if (typical === undefined) throw noPipeline();
  return typical.step;
}

/** Returns the pipelines of the last steps that ran the same actions as the step of `records`. */
function alikePipelines(run: RunView, records: readonly StepRecord[]): readonly RecordedPipeline[] {
  const own = recordedPipeline(records);
  const steps = lastSteps(run).filter((step) => step.some(({ spans }) => spans.some(isPipelineSpan)));
  const alike = steps.map(recordedPipeline).filter((pipeline) => orderOf(pipeline) === orderOf(own));
  return alike.length === 0 ? [own] : alike;
}

function orderOf({ byRank }: RecordedPipeline): string {
  return JSON.stringify(
    byRank.map((own) => own.map(({ kind, microbatch, chunk }) => [kind, microbatch, chunk])),
  );
}

/** Combines the pipelines of several steps with the same actions; the time of an action is the median over these steps. */
function typicalPipeline(pipelines: readonly RecordedPipeline[]): RecordedPipeline {
  const [first] = pipelines as readonly [RecordedPipeline]; // one pipeline per step, and at least one step
  const medianOf = (rank: number, i: number): Seconds =>
    median(pipelines.map(({ byRank }) => byRank[rank]?.[i]?.seconds ?? 0));
  const byRank = first.byRank.map((own, rank) =>
    own.map((action, i) => ({ ...action, seconds: medianOf(rank, i) })),
  );
  return { ...first, byRank };
}

type PipelineSpan = SpanRecord & { readonly pipeline: NonNullable<SpanRecord['pipeline']> };

function isPipelineSpan(span: SpanRecord): span is PipelineSpan {
  return span.pipeline !== undefined;
}

/** Reads the pipeline from spans. Ranks with the same stages are replicas; each action has the mean time of its replicas. */
function recordedPipeline(records: readonly StepRecord[]): RecordedPipeline {
  const replicas = new Map<string, { readonly ranks: number[]; readonly spans: PipelineSpan[][] }>();
  for (const { rank, spans } of records) {
    const own = spans.filter(isPipelineSpan);
    if (own.length === 0) continue;
    const key = [...new Set(own.map(({ pipeline }) => pipeline.stage))].sort((a, b) => a - b).join();
    const { ranks, spans: others } = replicas.get(key) ?? { ranks: [], spans: [] };
    replicas.set(key, { ranks: [...ranks, rank], spans: [...others, own] });
  }
  const ordered = [...replicas].sort(([a], [b]) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
  const [first] = ordered;
  if (first === undefined) throw noPipeline();
  const virtualStages = first[0].split(',').length;
  const spans = ordered.flatMap(([, own]) => own.spans.flat());
  const numMicrobatches = 1 + Math.max(...spans.map(({ pipeline }) => pipeline.microbatch));
  return {
    sizes: { numRanks: ordered.length, numMicrobatches, virtualStages },
    splitsBackward: spans.some(({ pipeline }) => pipeline.half !== undefined),
    byRank: ordered.map(([, own]) => meanActions(own.spans, ordered.length)),
    ranks: ordered.map(([, own]) => own.ranks),
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

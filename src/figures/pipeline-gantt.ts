import type { PipelineScheduleName } from '../config/settings/pipeline';
import { rankNames } from '../core/rank-names';
import { mean } from '../core/statistics';
import type { Seconds } from '../core/units';
import { type Replay, replay, type TimedAction } from '../parallel/pipeline/replay';
import {
  type Action,
  type ActionKind,
  type ActionTimes,
  bubbleShare,
  mostInFlight,
  type PipelineSizes,
} from '../parallel/pipeline/schedules';
import { createFigure, type Figure, quantity } from './figure';
import { counted, percent, short, timeScale } from './format';
import { rowAxis, titled } from './grammar/axes';
import { bold, safe, soft, strong, unescaped } from './grammar/ink';
import { bars, note } from './grammar/marks';
import { type Fill, NEUTRAL_FILL, PHASE_FILL, WAIT_FILL, WAIT_OUTLINE } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import { STATIC_WIDTH } from './grammar/template';
import { fits, textWidth } from './grammar/text-width';
import {
  alikePipelines,
  pipelineStep,
  type RecordedPipeline,
  recordedPipeline,
  typicalPipeline,
} from './recorded-pipeline';
import { type RunView, recordsOfStep } from './run-view';
import { createTable } from './table';

const SIZES = { right: 118, row: 34, top: 92, between: 74, foot: 48 } as const;

/** A panel with the times of a schedule: its name, the times, and the unit of the time axis. */
interface GanttPanel {
  readonly name: string;
  readonly replayed: Replay;
  readonly unit: { readonly divisor: number; readonly text: string };
}

/**
 * Draws a pipeline's step twice, with a row per rank: as the schedule predicts the step for equal stages, and as the step ran.
 * Ranks share cores, so an idle rank speeds the other ranks up. Therefore "as it ran" replays the CPU time of each action
 * through the schedule, as if each rank had a core. Without `step`, these times are medians over the last steps with the same
 * schedule. Throws: CONFIG if the step has no pipeline.
 */
export function pipelineGantt(run: RunView, step?: number): Figure {
  const records = recordsOfStep(run.records, step ?? pipelineStep(run));
  const pipelines = step === undefined ? alikePipelines(run, records) : [recordedPipeline(records)];
  const { sizes, splitsBackward, byRank, ranks } = typicalPipeline(pipelines);
  const { numRanks, numMicrobatches, virtualStages } = sizes;
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
      name: 'As it ran',
      replayed: ran,
      unit: { divisor: scale.divisor, text: `${scale.unit} of CPU time, replayed with a core per rank` },
    },
  ];
  const merged = [
    ...(pipelines.length === 1 ? [] : [` Medians over ${counted(pipelines.length, 'step')}.`]),
    ...(numAlike === 1 ? [] : [` A row is the mean of ${numAlike} ranks.`]),
  ].join('');
  return createFigure({
    title: [
      `${numMicrobatches} ${numMicrobatches === 1 ? 'microbatch' : 'microbatches'} on ${numRanks} ${virtualStages > 1 ? `× ${virtualStages} ` : ''}stages: ranks are idle for ${unescaped(percent(ran.bubble))} of the step`,
    ],
    subtitle:
      `${run.strategy}, step ${records[0].step}, ${counted(run.world, 'rank')}${run.note === undefined ? '' : `, ${safe(run.note)}`}.${merged}<br>` +
      `Bubble: ${formulaText(sizes, times)} = ${percent(formula)} by the formula, ${percent(ran.bubble)} as it ran.${unequalText(byRank)}`,
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
  return 22 + Math.max(...names.map((name) => textWidth(name, 11) * 1.1));
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
    text: fits(text, 10, length * perUnit) ? text : '',
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

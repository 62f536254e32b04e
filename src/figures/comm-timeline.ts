import { mean } from '../core/statistics';
import { type Timeline, timeline, waitShare } from '../ledger/timeline';
import { waitsOf } from '../ledger/waits';
import { createFigure, type Figure, quantity } from './figure';
import { percent } from './format';
import { bold, soft, strong } from './grammar/ink';
import { type RunView, recordsOfStep } from './run-view';
import { stepTimes, typicalStep } from './step-times';
import { createTable } from './table';
import { plotLanes } from './timeline-bars';
import { WAIT_WORDS, waitFinding, waitSubtitle } from './wait-words';

export interface CommTimelineOptions {
  /** The step to draw. Default: the step nearest to the medians of the last steps; the first step does not count. */
  readonly step?: number;
}

const SIZES = { left: 58, right: 82, row: 54 } as const;
/** If there are more ranks than this, only the slowest, the fastest and some of the other ranks are drawn. */
const MAX_ROWS = 8;

/** Draws a step of each rank in two lanes, the main thread above the wire. The share of waits is at the end of each row. */
export function commTimeline(run: RunView, { step }: CommTimelineOptions = {}): Figure {
  const records = recordsOfStep(run.records, step ?? typicalStep(run)[0]?.step);
  const waits = waitsOf(records);
  // All rows have one clock, so a collective ends at about the same x on all of them.
  const origin = Math.min(...records.map(({ start }) => start));
  const all = records.map((record) => timeline(record, origin, waits.get(record.rank)));
  const shown = shownOf(all);
  const rows = shown.map((lanes) => ({
    lanes,
    name: strong(`rank ${lanes.rank}`),
    note: `${bold(percent(waitShare(lanes)))} ${soft('waits')}`,
  }));
  const longest = Math.max(...records.map(({ end }) => end)) - origin || 1e-3;
  const numSteps = step === undefined ? stepTimes(run).numSteps : 0;
  const waited = mean(all.map(waitShare));
  const numCollectives = mean(records.map(({ collectives }) => collectives.length));
  return createFigure({
    title: waitFinding(run, records, mean(all.map(({ seconds }) => seconds))),
    subtitle: waitSubtitle(run, records, shown.length, numSteps),
    ...plotLanes(rows, { ...SIZES, longest }),
    quantities: {
      waitShare: quantity(waited * 100, '%', (share) => `ranks wait ${share} of the step`),
      numCollectives: quantity(numCollectives, '', (count) => `one step takes ${count} collectives`),
    },
    table: createTable(all.flatMap(tableRows)),
  });
}

/** Returns all ranks if they are few; else the slowest, the fastest, and some of the other ranks at equal distances. */
function shownOf(all: readonly Timeline[]): readonly Timeline[] {
  if (all.length <= MAX_ROWS) return all;
  const bySpeed = [...all].sort((a, b) => a.seconds - b.seconds);
  const kept = new Set([bySpeed[0]?.rank, bySpeed.at(-1)?.rank]);
  const every = Math.ceil(all.length / (MAX_ROWS - 2));
  for (const { rank } of all) if (rank % every === 0 && kept.size < MAX_ROWS) kept.add(rank);
  return all.filter(({ rank }) => kept.has(rank));
}

function tableRows({ rank, main, wire }: Timeline) {
  const rows = [
    ...main.map(({ kind, waitsFor, ...segment }) => ({
      ...segment,
      lane: 'main',
      op: waitsFor === undefined ? kind : `wait ${WAIT_WORDS[waitsFor]}`,
      cause: null,
      bytes: null,
    })),
    ...wire.map((segment) => ({ ...segment, lane: 'wire' })),
  ];
  return rows.map(({ lane, op, cause, module, bytes, start, end }) => {
    return { rank, lane, op, cause, module, bytes, startSeconds: start, endSeconds: end };
  });
}

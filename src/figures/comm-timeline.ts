import type { StepRecord } from '../ledger/record';
import { type Timeline, timeline, waitShare } from '../ledger/timeline';
import { totalWait, type WaitSeconds, waitSecondsOf, waitsOf } from '../ledger/waits';
import { mostlyFor, WAIT_WORDS, waitsText } from './comm-words';
import { createFigure, type Figure, titleOf } from './figure';
import { counted, percent, short, timeScale } from './format';
import { bold, safe, soft, strong } from './grammar/ink';
import { type RunView, recordsOfStep } from './run-view';
import { mean } from './spread';
import { stepTimes, typicalStep } from './step-times';
import { createTable } from './table';
import { plotLanes } from './timeline-bars';

export interface CommTimelineOptions {
  /** Default: the one nearest the medians of the last steps, without the first. */
  readonly step?: number;
}

const SIZES = { left: 58, right: 82, row: 54 } as const;
/** With more ranks only the slowest, the fastest and some between are drawn. */
const MAX_ROWS = 8;

/** Each rank's step in two lanes, the main thread over the wire, with the share that it waited at the row's end. */
export function commTimeline(run: RunView, options: CommTimelineOptions = {}): Figure {
  const times = stepTimes(run);
  const records = recordsOfStep(run.records, options.step ?? typicalStep(run)[0]?.step);
  const waits = waitsOf(records);
  // One clock for all rows: a collective ends on all ranks at about the same place.
  const origin = Math.min(...records.map(({ start }) => start));
  const all = records.map((record) => timeline(record, origin, waits.get(record.rank)));
  const rows = rowsOf(all);
  const longest = Math.max(...records.map(({ end }) => end)) - origin || 1e-3;
  return createFigure({
    title: findingOf(records, all),
    subtitle: subtitleOf(run, records, rows.length, options.step === undefined ? times.numSteps : 0),
    ...plotLanes(rows.map(laneRow), { ...SIZES, longest }),
    quantities: {
      waitShare: {
        value: mean(all.map(waitShare)) * 100,
        unit: '%',
        says: (share) => `ranks wait ${share} of the step`,
      },
      numCollectives: {
        value: mean(records.map(({ collectives }) => collectives.length)),
        unit: '',
        says: (count) => `one step takes ${count} collectives`,
      },
    },
    table: createTable(all.flatMap(tableRows)),
  });
}

/** All ranks if they are few; else the slowest, the fastest, and some between at equal distances. */
function rowsOf(all: readonly Timeline[]): Timeline[] {
  if (all.length <= MAX_ROWS) return [...all];
  const bySpeed = [...all].sort((a, b) => a.seconds - b.seconds);
  const kept = new Set([bySpeed[0]?.rank, bySpeed.at(-1)?.rank]);
  const every = Math.ceil(all.length / (MAX_ROWS - 2));
  for (const lanes of all) if (lanes.rank % every === 0 && kept.size < MAX_ROWS) kept.add(lanes.rank);
  return all.filter((lanes) => kept.has(lanes.rank));
}

function findingOf(records: readonly StepRecord[], all: readonly Timeline[]): string {
  if (records.every(({ collectives }) => collectives.length === 0)) {
    return 'Nothing was communicated in this step';
  }
  const seconds = mean(all.map((lanes) => lanes.seconds));
  const waits = waitsOfRows(records);
  const scale = timeScale(seconds);
  const waited = totalWait(waits);
  const cost = `${short(waited / scale.divisor)} of ${short(seconds / scale.divisor)} ${scale.unit}`;
  if (waited < seconds / 200) return titleOf(`Ranks hardly wait: ${cost}`);
  const mostly = mostlyFor(waits);
  return titleOf(`Ranks wait ${cost}${mostly === '' ? '' : `, ${mostly}`}`);
}

/** Mean over ranks. */
function waitsOfRows(records: readonly StepRecord[]): WaitSeconds {
  const parts = [...waitsOf(records).values()];
  const { wire, peer, core, unknown } = waitSecondsOf(parts.flat());
  const n = parts.length || 1;
  return { wire: wire / n, peer: peer / n, core: core / n, unknown: unknown / n };
}

/** `numSteps`: among how many the step is the typical one; 0 where it was asked for. */
function subtitleOf(run: RunView, records: readonly StepRecord[], numRows: number, numSteps: number): string {
  const note = run.note === undefined ? '' : `, ${safe(run.note)}`;
  const shown = numRows < records.length ? ` ${numRows} of ${records.length} ranks shown.` : '';
  const nearest = numSteps > 1 ? `, nearest the median of ${numSteps}` : '';
  const scale = timeScale(Math.max(...records.map(({ start, end }) => end - start)));
  const waits = waitsOfRows(records);
  const said = totalWait(waits) > 0 ? ` Waits in ${scale.unit}: ${waitsText(waits, scale.divisor)}.` : '';
  return (
    `${run.strategy}, ${counted(run.world, 'rank')}${note}, step ${records[0]?.step}${nearest}.${shown}<br>` +
    `Upper lane: main thread. Lower: wire.${said}`
  );
}

function laneRow(lanes: Timeline) {
  const note = `${bold(percent(waitShare(lanes)))} ${soft('waits')}`;
  return { lanes, name: strong(`rank ${lanes.rank}`), note };
}

function tableRows({ rank, main, wire }: Timeline) {
  const rows = [
    ...main.map(({ kind, waitsFor, module, start, end }) => ({
      lane: 'main',
      op: waitsFor === undefined ? (kind as string) : `wait ${WAIT_WORDS[waitsFor]}`,
      cause: null,
      module,
      bytes: null,
      start,
      end,
    })),
    ...wire.map(({ op, cause, module, bytes, start, end }) => ({
      lane: 'wire',
      op,
      cause,
      module,
      bytes,
      start,
      end,
    })),
  ];
  return rows.map(({ start, end, ...rest }) => ({ rank, ...rest, startSeconds: start, endSeconds: end }));
}

import type { Bytes, Seconds } from '../core/units';
import { type CommunicationRow, communication } from '../ledger/communication';
import { WAIT_KINDS, type WaitSeconds } from '../ledger/waits';
import { CAUSE_WORDS, spoken, WAIT_WORDS } from './comm-words';
import { createFigure, type Figure, type Quantities, titleOf } from './figure';
import { byteScale, counted, inUnit, percent, timeScale } from './format';
import { bareRowAxis, rowAxis, rowRange } from './grammar/axes';
import { soft, strong } from './grammar/ink';
import { bars, note, PAPER } from './grammar/marks';
import { COMM_FILL, type Fill, NEUTRAL_FILL, PHASE_FILL, WAIT_FILLS, WAIT_OUTLINE } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import type { Annotation, BarTrace } from './grammar/plotly';
import { textWidth } from './grammar/text-width';
import type { RunView } from './run-view';
import { lastSteps } from './step-times';
import { createTable } from './table';

const ROW = 46;
/** Shares of the width that bytes and times have. */
const SPLIT = { bytes: [0, 0.5], time: [0.64, 1] } as const;

/** One kind of collective, as the mean over ranks of one step. */
interface Kind {
  readonly name: string;
  readonly row: CommunicationRow;
  readonly count: number;
  readonly bytes: Bytes;
  readonly wireBytes: Bytes;
  readonly exposed: Seconds;
  readonly waits: WaitSeconds;
  /** Of the time that bytes travelled: in all, and while the main thread worked on. */
  readonly wire: Seconds;
  readonly overlapped: Seconds;
}

/** What was sent and why: payload and received bytes by cause and operation, and how much of the time was hidden. */
export function commCauses(run: RunView): Figure {
  const kinds = kindsOf(run);
  const left = Math.max(70, ...kinds.map(({ name }) => textWidth(name, 11) * 1.1 + 14));
  const frame = { top: 92, left, right: 84, pixels: Math.max(1, kinds.length) * ROW, foot: 40 } as const;
  return createFigure({
    title: findingOf(kinds),
    subtitle: subtitleOf(run, kinds),
    ...(kinds.length === 0
      ? plot(frame, [emptyPanel(run)])
      : plot({ ...frame, legend: 'edge' }, [bytesPanel(kinds), timePanel(kinds)])),
    quantities: quantitiesOf(kinds),
    table: createTable(kinds.map(tableRow)),
  });
}

function subtitleOf(run: RunView, kinds: readonly Kind[]): string {
  const numSteps = counted(lastSteps(run).length, 'step');
  const where = `${run.strategy}, ${counted(run.world, 'rank')}: mean per rank and step of ${numSteps}.`;
  const wire = kinds.reduce((sum, kind) => sum + kind.wire, 0);
  const hidden = kinds.reduce((sum, kind) => sum + kind.overlapped, 0);
  if (wire === 0) return where;
  return `${where} Bytes travel for ${inUnit(wire, timeScale(wire))}, ${percent(hidden / wire)} of it while ranks compute.`;
}

function kindsOf(run: RunView): Kind[] {
  const byKind = new Map<string, CommunicationRow[]>();
  const records = lastSteps(run).flat();
  for (const row of communication(records)) {
    const key = `${row.cause} ${row.op}`;
    byKind.set(key, [...(byKind.get(key) ?? []), row]);
  }
  const numRecords = records.length;
  return [...byKind.values()].flatMap((rows): Kind[] => {
    const [row] = rows;
    if (row === undefined) return [];
    const mean = (field: (r: CommunicationRow) => number): number =>
      rows.reduce((sum, r) => sum + field(r), 0) / numRecords;
    const count = mean((r) => r.count);
    return [
      {
        name: `${CAUSE_WORDS[row.cause]}: ${Number(count.toFixed(1))} ${spoken(row.op)}`,
        row,
        count,
        bytes: mean((r) => r.bytes),
        wireBytes: mean((r) => r.wireBytes),
        exposed: mean((r) => r.exposedSeconds),
        waits: {
          wire: mean((r) => r.waits.wire),
          peer: mean((r) => r.waits.peer),
          core: mean((r) => r.waits.core),
          unknown: mean((r) => r.waits.unknown),
        },
        wire: mean((r) => r.wireSeconds),
        overlapped: mean((r) => r.overlappedSeconds),
      },
    ];
  });
}

function quantitiesOf(kinds: readonly Kind[]): Quantities {
  const sum = (field: (kind: Kind) => number): number =>
    kinds.reduce((total, kind) => total + field(kind), 0);
  return {
    numCollectives: {
      value: sum((kind) => kind.count),
      unit: '',
      says: (count) => `one step takes ${count} collectives`,
    },
    wireMB: {
      value: sum((kind) => kind.wireBytes) / 1e6,
      unit: 'MB',
      says: (mb) => `each rank receives ${mb} per step`,
    },
    payloadMB: {
      value: sum((kind) => kind.bytes) / 1e6,
      unit: 'MB',
      says: (mb) => `the payload is ${mb} per rank and step`,
    },
  };
}

function findingOf(kinds: readonly Kind[]): string {
  const wire = kinds.reduce((sum, kind) => sum + kind.wireBytes, 0);
  if (wire === 0)
    return kinds.length === 0 ? 'Nothing was communicated' : 'Ranks met, but no bytes were exchanged';
  const byCause = new Map<string, Bytes>();
  for (const { row, wireBytes } of kinds) {
    byCause.set(CAUSE_WORDS[row.cause], (byCause.get(CAUSE_WORDS[row.cause]) ?? 0) + wireBytes);
  }
  const [top] = [...byCause].sort((a, b) => b[1] - a[1]);
  const share = Math.round(((top?.[1] ?? 0) / wire) * 100);
  return titleOf(`Each rank receives ${inUnit(wire, byteScale(wire))} per step, ${share}% of it ${top?.[0]}`);
}

const UPPER = -0.17;
const LOWER = 0.17;
const THICK = 0.3;

function mostOf(values: readonly number[]): readonly [number, number] {
  return [0, Math.max(...values) * 1.04 || 1];
}

function bytesPanel(kinds: readonly Kind[]): Panel {
  const scale = byteScale(Math.max(0, ...kinds.map((kind) => Math.max(kind.bytes, kind.wireBytes))));
  const causes = [...new Set(kinds.map(({ row }) => row.cause))];
  const lane = (shift: number, of: (kind: Kind) => Bytes, isOf: (kind: Kind) => boolean) =>
    kinds.flatMap((kind, i) => (isOf(kind) ? [{ row: i + shift, length: of(kind) / scale.divisor }] : []));
  const payload = bars(
    lane(
      UPPER,
      ({ bytes }) => bytes,
      () => true,
    ),
    {
      name: 'payload held',
      fill: NEUTRAL_FILL,
      width: THICK,
      hover: `payload %{x:.3f} ${scale.unit}<extra></extra>`,
    },
  );
  const received = causes.map((cause) =>
    bars(
      lane(
        LOWER,
        ({ wireBytes }) => wireBytes,
        ({ row }) => row.cause === cause,
      ),
      {
        name: `received: ${CAUSE_WORDS[cause]}`,
        fill: COMM_FILL[cause],
        width: THICK,
        hover: `received %{x:.3f} ${scale.unit}<extra></extra>`,
      },
    ),
  );
  return {
    heading: 'Bytes',
    aside: `, ${scale.unit}`,
    x: {
      domain: SPLIT.bytes,
      range: mostOf(kinds.map((kind) => Math.max(kind.bytes, kind.wireBytes) / scale.divisor)),
    },
    y: rowAxis(
      kinds.map(({ name }) => strong(name)),
      rowRange(kinds.length, 0.55, 0.55),
    ),
    data: [payload, ...received],
    annotations: kinds.flatMap(({ bytes, wireBytes }, i) => [
      end(bytes / scale.divisor, i + UPPER, inUnit(bytes, byteScale(bytes))),
      end(wireBytes / scale.divisor, i + LOWER, inUnit(wireBytes, byteScale(wireBytes))),
    ]),
  };
}

function timePanel(kinds: readonly Kind[]): Panel {
  const totals = kinds.map(({ exposed, overlapped }) => exposed + overlapped);
  const scale = timeScale(Math.max(0, ...totals));
  const base = kinds.map(() => 0);
  const stacked = (name: string, fill: Fill, of: (kind: Kind) => Seconds): BarTrace => {
    const items = kinds.map((kind, row) => ({ row, length: of(kind) / scale.divisor, from: base[row] ?? 0 }));
    for (const { row, length, from } of items) base[row] = from + length;
    const line = Object.values(WAIT_FILLS).includes(fill) ? { line: WAIT_OUTLINE } : {};
    return bars(items, {
      name,
      fill,
      width: 0.42,
      hover: `${name} %{x:.3f} ${scale.unit}<extra></extra>`,
      ...line,
    });
  };
  const waited = WAIT_KINDS.filter((what) => kinds.some(({ waits }) => waits[what] > 0));
  return {
    heading: 'Time',
    aside: `, ${scale.unit}`,
    x: { domain: SPLIT.time, range: mostOf(totals.map((total) => total / scale.divisor)) },
    y: bareRowAxis(rowRange(kinds.length, 0.55, 0.55)),
    data: [
      ...waited.map((what) =>
        stacked(`waits ${WAIT_WORDS[what]}`, WAIT_FILLS[what], ({ waits }) => waits[what]),
      ),
      stacked(
        'travels while ranks compute',
        { color: PHASE_FILL.forward.color },
        ({ overlapped }) => overlapped,
      ),
    ],
    annotations: kinds.map(({ exposed }, i) => {
      const total = totals[i] ?? 0;
      const share = total > 0 ? `${Math.round((exposed / total) * 100)}% waits` : '0 s';
      return end(total / scale.divisor, i, share);
    }),
  };
}

function end(x: number, y: number, text: string): Annotation {
  return note(x, y, soft(text), { xshift: 2, font: { size: 10 } });
}

function emptyPanel(run: RunView): Panel {
  const text = run.world === 1 ? 'one rank has nobody to talk to' : 'no collective was recorded';
  const place = { ...PAPER, xanchor: 'center', font: { size: 12 } } as const;
  return { x: { visible: false }, y: { visible: false }, annotations: [note(0.45, 0.5, soft(text), place)] };
}

function tableRow(kind: Kind) {
  return {
    cause: kind.row.cause,
    op: kind.row.op,
    countPerStep: kind.count,
    bytes: kind.bytes,
    wireBytes: kind.wireBytes,
    exposedSeconds: kind.exposed,
    wireWaitSeconds: kind.waits.wire,
    peerWaitSeconds: kind.waits.peer,
    coreWaitSeconds: kind.waits.core,
    wireSeconds: kind.wire,
    overlappedSeconds: kind.overlapped,
  };
}

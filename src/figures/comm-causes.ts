import type { Bytes, Seconds } from '../core/units';
import { type CommunicationRow, communication } from '../ledger/communication';
import { WAIT_KINDS, type WaitSeconds } from '../ledger/waits';
import { CAUSE_WORDS, spoken, WAIT_WORDS } from './comm-words';
import { createFigure, type Figure, type Quantities, titleOf } from './figure';
import { byteScale, counted, inUnit, percent, type Scaled, timeScale } from './format';
import { soft, strong } from './ink';
import { COMM_FILL, type Fill, NEUTRAL, WAIT_FILLS, WAIT_LINE } from './palette';
import { panelHeading } from './panel-heading';
import type { Annotation, BarTrace, Layout } from './plotly';
import type { RunView } from './run-view';
import { lastSteps } from './step-times';
import { createTable } from './table';
import { textWidth } from './text-width';

const ROW = 46;
const MARGIN = { t: 92, r: 84, b: 84 };

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
  const bytes = byteScale(Math.max(0, ...kinds.map((kind) => Math.max(kind.bytes, kind.wireBytes))));
  const time = timeScale(Math.max(0, ...kinds.map((kind) => kind.exposed + kind.overlapped)));
  const rows = Math.max(1, kinds.length);
  const left = Math.max(70, ...kinds.map(({ name }) => textWidth(name, 11) * 1.1 + 14));
  return createFigure({
    title: findingOf(kinds),
    subtitle: subtitleOf(run, kinds),
    data: [...byteBars(kinds, bytes), ...timeBars(kinds, time)],
    layout: {
      height: MARGIN.t + MARGIN.b + rows * ROW,
      margin: { ...MARGIN, l: left },
      barmode: 'overlay',
      showlegend: kinds.length > 0,
      legend: { x: -(left - 10) / (800 - left - MARGIN.r), y: -40 / (rows * ROW) },
      ...axesOf(kinds, bytes, time),
      annotations: [
        ...(kinds.length > 0
          ? [panelHeading(0, `<b>Bytes</b>, ${bytes.unit}`), panelHeading(0.64, `<b>Time</b>, ${time.unit}`)]
          : []),
        ...kinds.flatMap((kind, i) => endLabels(kind, i, bytes, time)),
        ...(kinds.length === 0 ? [nothing(run)] : []),
      ],
    },
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

function axesOf(kinds: readonly Kind[], bytes: Scaled, time: Scaled): Partial<Layout> {
  if (kinds.length === 0) return { xaxis: { visible: false }, yaxis: { visible: false } };
  const y = {
    range: [kinds.length - 0.45, -0.55],
    showgrid: false,
    ticks: '',
    ticklabelstandoff: 5,
  } as const;
  const most = (field: (kind: Kind) => number): number => Math.max(...kinds.map(field)) * 1.04 || 1;
  return {
    xaxis: {
      domain: [0, 0.5],
      range: [0, most((kind) => Math.max(kind.bytes, kind.wireBytes) / bytes.divisor)],
    },
    yaxis: { ...y, tickvals: kinds.map((_, i) => i), ticktext: kinds.map(({ name }) => strong(name)) },
    xaxis2: {
      domain: [0.64, 1],
      range: [0, most((kind) => (kind.exposed + kind.overlapped) / time.divisor)],
      anchor: 'y2',
    },
    yaxis2: { range: y.range, showgrid: false, ticks: '', anchor: 'x2', showticklabels: false, tickvals: [] },
  };
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

const PAYLOAD: Fill = { color: '#59636E' };
const UPPER = -0.17;
const LOWER = 0.17;
const THICK = 0.3;

function byteBars(kinds: readonly Kind[], scale: Scaled): BarTrace[] {
  if (kinds.length === 0) return [];
  const payload = flat(
    'payload held',
    PAYLOAD,
    kinds.map((kind) => kind.bytes / scale.divisor),
    UPPER,
  );
  const causes = [...new Set(kinds.map(({ row }) => row.cause))];
  const received = causes.map((cause) => {
    const rows = kinds.map((kind, i) => ({ kind, i })).filter(({ kind }) => kind.row.cause === cause);
    const name = `received: ${CAUSE_WORDS[cause]}`;
    const trace = flat(
      name,
      COMM_FILL[cause],
      rows.map(({ kind }) => kind.wireBytes / scale.divisor),
      LOWER,
    );
    return { ...trace, y: rows.map(({ i }) => i + LOWER) };
  });
  return [
    { ...payload, hovertemplate: `payload %{x:.3f} ${scale.unit}<extra></extra>` },
    ...received.map((trace) => ({
      ...trace,
      hovertemplate: `received %{x:.3f} ${scale.unit}<extra></extra>`,
    })),
  ];
}

function timeBars(kinds: readonly Kind[], scale: Scaled): BarTrace[] {
  if (kinds.length === 0) return [];
  const place = { xaxis: 'x2', yaxis: 'y2', width: 0.42 } as const;
  const base = kinds.map(() => 0);
  const waits = WAIT_KINDS.filter((waited) => kinds.some((kind) => kind.waits[waited] > 0)).map((waited) => {
    const values = kinds.map((kind) => kind.waits[waited] / scale.divisor);
    const bar = flat(`waits ${WAIT_WORDS[waited]}`, WAIT_FILLS[waited], values, 0);
    const from = base.map((value) => Number(value.toPrecision(6)));
    values.forEach((value, i) => {
      base[i] = (base[i] ?? 0) + value;
    });
    return {
      ...bar,
      ...place,
      base: from,
      marker: { ...bar.marker, line: { width: 1.2, color: WAIT_LINE } },
      hovertemplate: `waits ${WAIT_WORDS[waited]} %{x:.3f} ${scale.unit}<extra></extra>`,
    };
  });
  const overlapped = kinds.map((kind) => kind.overlapped / scale.divisor);
  const hidden = flat('travels while ranks compute', { color: '#7FB8B0' }, overlapped, 0);
  const hovertemplate = `travels while ranks compute %{x:.3f} ${scale.unit}<extra></extra>`;
  return [
    ...waits,
    { ...hidden, ...place, base: base.map((value) => Number(value.toPrecision(6))), hovertemplate },
  ];
}

function flat(name: string, fill: Fill, values: readonly number[], shift: number): BarTrace {
  return {
    type: 'bar',
    orientation: 'h',
    name: soft(name),
    x: values.map((value) => Number(value.toPrecision(6))),
    y: values.map((_, i) => i + shift),
    width: THICK,
    marker: {
      color: fill.color,
      pattern: fill.pattern ?? { shape: '' },
      line: { width: 0.5, color: NEUTRAL },
    },
  };
}

function endLabels(kind: Kind, i: number, bytes: Scaled, time: Scaled): Annotation[] {
  const at = (x: number, y: number, text: string, axes: object): Annotation => ({
    x,
    y: i + y,
    text: soft(text),
    showarrow: false,
    xanchor: 'left',
    xshift: 2,
    font: { size: 10 },
    ...axes,
  });
  const total = kind.exposed + kind.overlapped;
  const share = total > 0 ? `${Math.round((kind.exposed / total) * 100)}% waits` : '0 s';
  return [
    at(kind.bytes / bytes.divisor, UPPER, inUnit(kind.bytes, byteScale(kind.bytes)), {}),
    at(kind.wireBytes / bytes.divisor, LOWER, inUnit(kind.wireBytes, byteScale(kind.wireBytes)), {}),
    at(total / time.divisor, 0, share, { xref: 'x2', yref: 'y2' }),
  ];
}

function nothing(run: RunView): Annotation {
  const text = run.world === 1 ? 'one rank has nobody to talk to' : 'no collective was recorded';
  return {
    x: 0.45,
    y: 0.5,
    xref: 'paper',
    yref: 'paper',
    text: soft(text),
    showarrow: false,
    font: { size: 12 },
  };
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

import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { totalBytes } from '../ledger/memory';
import type { BytesByCause } from '../ledger/record';
import { percent, type Scaled, short } from './format';
import { bold, soft, strong } from './ink';
import { CAUSE_FILL, NEUTRAL } from './palette';
import type { Annotation, BarTrace, Layout } from './plotly';
import { spread } from './stack-labels';

const ABSENT_ROW = 18;
const LABEL_GAP = 14;
const X = { xref: 'x2', xanchor: 'left', showarrow: false } as const;

interface Panel {
  readonly data: BarTrace[];
  readonly axes: Pick<Layout, 'xaxis2' | 'yaxis2' | 'yaxis3'>;
  readonly annotations: Annotation[];
}

/** What was held at the peak. */
export interface Peak {
  readonly atPeak: BytesByCause;
  /** Of the temporaries, what is handed from unit to unit; the rest lives within one. */
  readonly ring: Bytes;
}

/** The peak as one bar with direct labels, which serve as the figure's legend; below it what is held at other times only. */
export function peakPanel(peak: Peak, seen: readonly MemoryCause[], scale: Scaled, pixels: number): Panel {
  const { atPeak } = peak;
  const total = totalBytes(atPeak);
  const present = seen.filter((cause) => atPeak[cause] > 0);
  const absent = seen.filter((cause) => atPeak[cause] === 0);
  const rows = Math.max(1, absent.length);
  const foot = absent.length === 0 ? 0 : (absent.length * ABSENT_ROW) / pixels;
  const stackFrom = foot === 0 ? 0 : foot + 0.06;
  const stackTo = 0.96;
  return {
    data: [...stack(present, atPeak, scale), ...absent.map((cause, row) => swatch(cause, row))],
    axes: {
      xaxis2: { domain: [0.705, 1], range: [-0.5, 3.6], visible: false, anchor: 'y2', fixedrange: true },
      yaxis2: {
        domain: [stackFrom, stackTo],
        range: [0, total / scale.divisor || 1],
        visible: false,
        anchor: 'x2',
        fixedrange: true,
      },
      yaxis3: {
        domain: [0, foot || 0.01],
        range: [-rows, 0],
        visible: false,
        anchor: 'x2',
        fixedrange: true,
      },
    },
    annotations: [
      ...(total > 0 ? [heading(scale)] : []),
      ...labels(present, peak, scale, (stackTo - stackFrom) * pixels),
      ...absent.map((cause, row) => absentLabel(cause, row)),
    ],
  };
}

function stack(present: readonly MemoryCause[], atPeak: BytesByCause, scale: Scaled): BarTrace[] {
  const total = totalBytes(atPeak);
  let base = 0;
  return present.map((cause) => {
    const from = base;
    base += atPeak[cause];
    const held = `${short(atPeak[cause] / scale.divisor)} ${scale.unit}, ${percent(atPeak[cause] / total)}`;
    return {
      ...bar(cause, 'y2'),
      x: [0],
      y: [atPeak[cause] / scale.divisor],
      base: [from / scale.divisor],
      name: cause,
      hovertemplate: `<b>${cause}</b> ${held} of the peak<extra></extra>`,
    };
  });
}

function swatch(cause: MemoryCause, row: number): BarTrace {
  return { ...bar(cause, 'y3'), x: [0], y: [0.5], base: [-row - 0.75], hoverinfo: 'skip' };
}

function bar(cause: MemoryCause, yaxis: string) {
  const { color, pattern } = CAUSE_FILL[cause];
  const marker = { color, pattern: pattern ?? { shape: '' as const }, line: { width: 0.5, color: NEUTRAL } };
  return { type: 'bar' as const, xaxis: 'x2', yaxis, width: 0.9, marker };
}

function heading(scale: Scaled): Annotation {
  const text = soft(`at the peak, ${scale.unit}`);
  return { ...X, x: -0.45, y: 0.965, yref: 'paper', text, xshift: -3, yanchor: 'bottom', font: { size: 11 } };
}

/** One label a segment, at its middle, moved where thin segments lie close. */
function labels(
  present: readonly MemoryCause[],
  { atPeak, ring }: Peak,
  scale: Scaled,
  pixels: number,
): Annotation[] {
  const total = totalBytes(atPeak);
  let base = 0;
  const middles = present.map((cause) => {
    const middle = ((base + atPeak[cause] / 2) / total) * pixels;
    base += atPeak[cause];
    return middle;
  });
  const places = spread(middles, LABEL_GAP, 5, pixels - 4);
  return present.map((cause, i) => ({
    ...X,
    x: 0.58,
    y: (((places[i] ?? 0) / pixels) * total) / scale.divisor,
    yref: 'y2',
    text: `${strong(cause)} ${bold(short(atPeak[cause] / scale.divisor))} ${soft(percent(atPeak[cause] / total))}${cause === 'temp' ? ringText(ring, scale) : ''}`,
    font: { size: 11 },
  }));
}

/** Fewer bytes of a ring are not worth a word. */
const LEAST_RING: Bytes = 1e3;

/** STACK_ORDER ends with the temporaries: there is room beside their label. */
function ringText(ring: Bytes, scale: Scaled): string {
  return ring < LEAST_RING ? '' : soft(`, ring ${short(ring / scale.divisor)}`);
}

function absentLabel(cause: MemoryCause, row: number): Annotation {
  const text = `${strong(cause)}${soft(' not at peak')}`;
  return { ...X, x: 0.58, y: -row - 0.5, yref: 'y3', text, font: { size: 11 } };
}

import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { totalBytes } from '../ledger/memory';
import type { BytesByCause } from '../ledger/record';
import { percent, type Scaled, short } from './format';
import { bold, soft, strong } from './grammar/ink';
import { spread } from './grammar/labels';
import { filled, note } from './grammar/marks';
import { CAUSE_FILL } from './grammar/palette';
import type { Panel } from './grammar/plot';
import type { Annotation, Axis, BarTrace } from './grammar/plotly';

const ABSENT_ROW = 18;
const LABEL_GAP = 14;
/** Where labels begin, right of the bar. */
const LABEL = 0.58;
const ACROSS: Axis = { domain: [0.705, 1], range: [-0.5, 3.6], visible: false, fixedrange: true };
const UP: Axis = { visible: false, fixedrange: true };

/** What was held at the peak. */
export interface Peak {
  readonly atPeak: BytesByCause;
  /** Of the temporaries, what is handed from unit to unit; the rest lives within one. */
  readonly ring: Bytes;
}

/** The peak as one bar with direct labels, which serve as the figure's legend; below it what is held at other times only. */
export function peakPanels(peak: Peak, seen: readonly MemoryCause[], scale: Scaled, pixels: number): Panel[] {
  const { atPeak } = peak;
  const total = totalBytes(atPeak);
  const present = seen.filter((cause) => atPeak[cause] > 0);
  const absent = seen.filter((cause) => atPeak[cause] === 0);
  const foot = (absent.length * ABSENT_ROW) / pixels;
  const [from, to] = [foot === 0 ? 0 : foot + 0.06, 0.96];
  return [
    {
      x: ACROSS,
      y: { ...UP, domain: [from, to], range: [0, total / scale.divisor || 1] },
      data: stack(present, atPeak, scale),
      annotations: [
        ...(total > 0 ? [caption(scale)] : []),
        ...labels(present, peak, scale, (to - from) * pixels),
      ],
    },
    {
      x: ACROSS,
      y: { ...UP, domain: [0, foot || 0.01], range: [-Math.max(1, absent.length), 0] },
      data: absent.map((cause, row) => ({ ...bar(cause, [-row - 0.75, 0.5]), hoverinfo: 'skip' })),
      annotations: absent.map((cause, row) =>
        note(LABEL, -row - 0.5, `${strong(cause)}${soft(' not at peak')}`),
      ),
    },
  ];
}

function stack(present: readonly MemoryCause[], atPeak: BytesByCause, scale: Scaled): BarTrace[] {
  const total = totalBytes(atPeak);
  let base = 0;
  return present.map((cause) => {
    const from = base;
    base += atPeak[cause];
    const held = `${short(atPeak[cause] / scale.divisor)} ${scale.unit}, ${percent(atPeak[cause] / total)}`;
    const trace = bar(cause, [from / scale.divisor, atPeak[cause] / scale.divisor]);
    return { ...trace, name: cause, hovertemplate: `<b>${cause}</b> ${held} of the peak<extra></extra>` };
  });
}

function bar(cause: MemoryCause, [base, height]: readonly [number, number]): BarTrace {
  return { ...filled(CAUSE_FILL[cause]), width: 0.9, x: [0], y: [height], base: [base] };
}

function caption(scale: Scaled): Annotation {
  const place = { yref: 'paper', xshift: -3, yanchor: 'bottom' } as const;
  return note(-0.45, 0.965, soft(`at the peak, ${scale.unit}`), place);
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
  return present.map((cause, i) => {
    const held = `${bold(short(atPeak[cause] / scale.divisor))} ${soft(percent(atPeak[cause] / total))}`;
    const text = `${strong(cause)} ${held}${cause === 'temp' ? ringText(ring, scale) : ''}`;
    return note(LABEL, (((places[i] ?? 0) / pixels) * total) / scale.divisor, text);
  });
}

/** Fewer bytes of a ring are not worth a word. */
const LEAST_RING: Bytes = 1e3;

/** STACK_ORDER ends with the temporaries: there is room beside their label. */
function ringText(ring: Bytes, scale: Scaled): string {
  return ring < LEAST_RING ? '' : soft(`, ring ${short(ring / scale.divisor)}`);
}

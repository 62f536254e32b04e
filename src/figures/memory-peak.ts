import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { totalBytes } from '../ledger/memory';
import type { BytesByCause } from '../ledger/record';
import { percent, type Scaled, short } from './format';
import { bold, soft, strong } from './grammar/ink';
import { filled, note, spread } from './grammar/marks';
import { CAUSE_FILL } from './grammar/palette';
import type { Panel } from './grammar/plot';
import type { Axis, BarTrace } from './grammar/plotly';

const ABSENT_ROW = 18;
const LABEL_GAP = 14;
/** The x at which the labels begin, right of the bar's end. */
const LABEL = 0.58;
const ACROSS: Axis = { domain: [0.705, 1], range: [-0.5, 3.6], visible: false, fixedrange: true };
const UP: Axis = { visible: false, fixedrange: true };
/** If ring temporaries hold fewer bytes than this, the label does not show them. */
const LEAST_RING: Bytes = 1e3;

/**
 * Draws the peak as one bar whose labels are the figure's legend, and below it the causes that are absent at the peak. `ring`
 * is the bytes of temporaries that are passed from unit to unit; the other temporaries are freed within a unit.
 */
export function peakPanels(
  { atPeak, ring }: { readonly atPeak: BytesByCause; readonly ring: Bytes },
  seen: readonly MemoryCause[],
  { divisor, unit }: Scaled,
  pixels: number,
): Panel[] {
  const total = totalBytes(atPeak);
  const absent = seen.filter((cause) => atPeak[cause] === 0);
  const foot = (absent.length * ABSENT_ROW) / pixels;
  const [from, to] = [foot === 0 ? 0 : foot + 0.06, 0.96];
  let base = 0;
  const segments = seen.flatMap((cause) => {
    const bytes = atPeak[cause];
    base += bytes;
    const [held, share] = [short(bytes / divisor), percent(bytes / total)];
    return bytes > 0 ? [{ cause, bytes, start: base - bytes, held, share }] : [];
  });
  const perByte = ((to - from) * pixels) / total;
  const middles = segments.map(({ bytes, start }) => (start + bytes / 2) * perByte);
  // Each segment has a label at its middle; labels of thin segments are moved apart.
  const places = spread(middles, LABEL_GAP, 5, (to - from) * pixels - 4);
  const labels = segments.map(({ cause, held, share }, i) => {
    // The temporaries are the topmost segment (STACK_ORDER), so there is room beside their label.
    const ringText = cause === 'temp' && ring >= LEAST_RING ? soft(`, ring ${short(ring / divisor)}`) : '';
    const text = `${strong(cause)} ${bold(held)} ${soft(share)}${ringText}`;
    return note(LABEL, (places[i] ?? 0) / perByte / divisor, text);
  });
  const caption = { yref: 'paper', xshift: -3, yanchor: 'bottom' } as const;
  return [
    {
      x: ACROSS,
      y: { ...UP, domain: [from, to], range: [0, total / divisor || 1] },
      data: segments.map(({ cause, bytes, start, held, share }) => ({
        ...bar(cause, start / divisor, bytes / divisor),
        name: cause,
        hovertemplate: `<b>${cause}</b> ${held} ${unit}, ${share} of the peak<extra></extra>`,
      })),
      annotations: [
        ...(total > 0 ? [note(-0.45, 0.965, soft(`at the peak, ${unit}`), caption)] : []),
        ...labels,
      ],
    },
    {
      x: ACROSS,
      y: { ...UP, domain: [0, foot || 0.01], range: [-Math.max(1, absent.length), 0] },
      data: absent.map((cause, row) => ({ ...bar(cause, -row - 0.75, 0.5), hoverinfo: 'skip' })),
      annotations: absent.map((cause, row) =>
        note(LABEL, -row - 0.5, `${strong(cause)}${soft(' not at peak')}`),
      ),
    },
  ];
}

function bar(cause: MemoryCause, base: number, height: number): BarTrace {
  return { ...filled(CAUSE_FILL[cause]), width: 0.9, x: [0], y: [height], base: [base] };
}

import type { SpanName } from '../core/events';
import type { Seconds } from '../core/units';
import type { Timeline } from '../ledger/timeline';
import { soft } from './grammar/ink';
import { PHASE_FILL } from './grammar/palette';
import type { Annotation, Shape } from './grammar/plotly';
import { textWidth } from './grammar/text-width';

type Phase = Exclude<SpanName, 'step'>;

export interface PhaseStretch {
  readonly phase: Phase;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** What the main thread was about, in stretches without gaps: waits and gaps belong to the phase before them. */
export function phases(lanes: Timeline): PhaseStretch[] {
  const out: PhaseStretch[] = [];
  for (const { kind, start, end } of lanes.main) {
    const last = out.at(-1);
    const phase = kind === 'wait' || kind === 'step' ? last?.phase : kind;
    if (phase === undefined) continue;
    if (last?.phase === phase) out[out.length - 1] = { ...last, end };
    else {
      if (last) out[out.length - 1] = { ...last, end: start };
      out.push({ phase, start, end });
    }
  }
  return stretched(out, lanes.seconds);
}

/** What comes before the first phase (gathering its parameters, say) and after the last one counts as theirs. */
function stretched(stretches: readonly PhaseStretch[], seconds: Seconds): PhaseStretch[] {
  return stretches.map((stretch, i) => ({
    ...stretch,
    start: i === 0 ? 0 : stretch.start,
    end: i === stretches.length - 1 ? Math.max(stretch.end, seconds) : stretch.end,
  }));
}

const BAND = { low: 1.0, high: 1.04 };

/** The phases as a coloured band above the plot, named where there is room. `pixels` is the band's whole width. */
export function phaseStrip(
  stretches: readonly PhaseStretch[],
  toUnit: (seconds: Seconds) => number,
  place: { readonly pixels: number; readonly seconds: Seconds },
): { shapes: Shape[]; annotations: Annotation[] } {
  const shapes: Shape[] = stretches.map(({ phase, start, end }) => ({
    type: 'rect',
    x0: toUnit(start),
    x1: toUnit(end),
    y0: BAND.low,
    y1: BAND.high,
    yref: 'paper',
    fillcolor: PHASE_FILL[phase].color,
    line: { width: 0 },
  }));
  const perSecond = place.pixels / place.seconds;
  let free = -8;
  const annotations = stretches.flatMap(({ phase, start, end }, i): Annotation[] => {
    const half = textWidth(phase, 11) / 2 + 4;
    const isLast = i === stretches.length - 1;
    const centered = ((start + end) / 2) * perSecond;
    const middle = isLast ? Math.min(centered, end * perSecond - half + 4) : centered;
    const isNarrow = half * 2 > (end - start) * perSecond + 24;
    if (middle - half < free || (isNarrow && !isLast)) return [];
    free = middle + half;
    return [
      {
        x: toUnit(middle / perSecond),
        y: BAND.high,
        yref: 'paper',
        text: soft(phase),
        showarrow: false,
        yanchor: 'bottom',
        font: { size: 11 },
      },
    ];
  });
  return { shapes, annotations };
}

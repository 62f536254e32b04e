import type { SpanName } from '../core/events';
import type { Seconds } from '../core/units';
import type { StepRecord } from '../ledger/record';
import { type Timeline, timeline } from '../ledger/timeline';
import type { Scaled } from './format';
import { soft } from './grammar/ink';
import { note } from './grammar/marks';
import { PHASE_FILL } from './grammar/palette';
import type { Annotation, Shape } from './grammar/plotly';
import { textWidth } from './grammar/text-width';

/** What the main thread did, in stretches without gaps: waits and gaps belong to the phase before them. */
function phases({ main, seconds }: Timeline) {
  const begun: { phase: Exclude<SpanName, 'step'>; start: Seconds }[] = [];
  for (const { kind, start } of main) {
    if (kind === 'wait' || kind === 'step' || kind === begun.at(-1)?.phase) continue;
    // What comes before the first phase (gathering its parameters, say) and after the last one counts as theirs.
    begun.push({ phase: kind, start: begun.length === 0 ? 0 : start });
  }
  const end = Math.max(main.at(-1)?.end ?? 0, seconds);
  return begun.map((one, i) => ({ ...one, end: begun[i + 1]?.start ?? end }));
}

const BAND = { low: 1.0, high: 1.04 };

/** The phases as a coloured band above the plot, named if there is room. The axis's `seconds` are `pixels` wide. */
export function phaseStrip(
  record: StepRecord,
  { divisor }: Scaled,
  { pixels, seconds }: { readonly pixels: number; readonly seconds: Seconds },
) {
  const stretches = phases(timeline(record));
  const shapes = stretches.map(({ phase, start, end }): Shape => {
    const place = { x0: start / divisor, x1: end / divisor, y0: BAND.low, y1: BAND.high, yref: 'paper' };
    return { type: 'rect', ...place, fillcolor: PHASE_FILL[phase].color, line: { width: 0 } };
  });
  const perSecond = pixels / seconds;
  let free = -8;
  const annotations = stretches.flatMap(({ phase, start, end }, i): Annotation[] => {
    const half = textWidth(phase, 11) / 2 + 4;
    const isLast = i === stretches.length - 1;
    const centered = ((start + end) / 2) * perSecond;
    const middle = isLast ? Math.min(centered, end * perSecond - half + 4) : centered;
    const isNarrow = half * 2 > (end - start) * perSecond + 24;
    if (middle - half < free || (isNarrow && !isLast)) return [];
    free = middle + half;
    const place = { yref: 'paper', xanchor: 'center', yanchor: 'bottom' } as const;
    return [note(middle / perSecond / divisor, BAND.high, soft(phase), place)];
  });
  return { shapes, annotations };
}

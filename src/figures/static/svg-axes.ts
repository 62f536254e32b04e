import { niceTicks } from '../grammar/axes';
import type { Theme } from '../grammar/ink';
import { baseline, element, svgText } from './svg';
import type { Frame, Scale } from './svg-frame';

/** Grid lines, tick labels and titles of all axes. */
export function svgAxes(frame: Frame, { soft: fill }: Theme): string[] {
  const shown = [...frame.scales.values()].filter(({ axis }) => axis.visible !== false);
  return shown.flatMap((scale) => axisParts(frame, scale, fill));
}

function axisParts({ scale: scaleOf, margin }: Frame, scale: Scale, fill: string): string[] {
  const { axis, isX, range } = scale;
  const other = scaleOf(axis.anchor ?? (isX ? 'y' : 'x'));
  const line = (value: number, to: number, stroke = ''): string => {
    const [at, from] = [scale.pixel(value), other.from];
    const ends = isX ? { x1: at, x2: at, y1: from, y2: to } : { x1: from, x2: to, y1: at, y2: at };
    return element('line', { ...ends, stroke });
  };
  const ticks = axis.tickvals ?? niceTicks(range, numTicks(scale));
  const decimals = Math.max(...ticks.map((value) => (String(value).split('.')[1] ?? '').length));
  const size = axis.tickfont?.size ?? 11;
  const label = (value: number, i: number): string => {
    const text = axis.ticktext?.[i] ?? value.toFixed(decimals).replace('-', '−');
    const at = scale.pixel(value);
    if (isX) return svgText(at, other.from + 6 + size, text, { size, anchor: 'middle', fill });
    return svgText(other.from - 7, at + baseline(text, size), text, { size, anchor: 'end', fill });
  };
  const hasZero = axis.zeroline === true && range[0] < 0 && range[1] > 0;
  const { text = '' } = axis.title ?? {};
  const middle = (scale.from + scale.to) / 2;
  const style = { size: 11, anchor: 'middle', fill } as const;
  const title = isX
    ? svgText(middle, other.from + 36, text, style)
    : svgText(Math.max(14, other.from - margin.l + 14), middle, text, { ...style, isTurned: true });
  return [
    ...ticks.flatMap((value, i) => [
      ...(axis.showgrid === false ? [] : [line(value, other.to, axis.gridcolor)]),
      ...(axis.ticks === '' ? [] : [line(value, other.from + (isX ? 4 : -4), axis.tickcolor)]),
      ...(axis.showticklabels === false ? [] : [label(value, i)]),
    ]),
    ...(hasZero ? [line(0, other.to, axis.zerolinecolor)] : []),
    ...(text === '' ? [] : [title]),
  ];
}

/** About one label per 70 pixels across, per 45 up. */
function numTicks({ from, to, isX }: Scale): number {
  return Math.max(2, Math.min(6, Math.abs(to - from) / (isX ? 70 : 45)));
}

import type { Theme } from '../grammar/ink';
import { type Frame, niceTicks, type Scale, scaleOf } from './svg-scale';
import { numLines, round, svgText } from './svg-text';

/** Grid lines, tick labels and titles of all axes. */
export function svgAxes(frame: Frame, theme: Theme): string[] {
  return [...frame.scales.values()].flatMap((scale) =>
    scale.axis.visible === false ? [] : axisParts(frame, scale, theme),
  );
}

function axisParts(frame: Frame, scale: Scale, theme: Theme): string[] {
  const { axis, direction } = scale;
  const other = scaleOf(frame, axis.anchor ?? (direction === 'x' ? 'y' : 'x'));
  const isX = direction === 'x';
  const ticks = axis.tickvals ?? niceTicks(scale.range, tickCount(scale));
  const size = axis.tickfont?.size ?? 11;
  const decimals = Math.max(...ticks.map((value) => (String(value).split('.')[1] ?? '').length));
  const parts: string[] = [];
  ticks.forEach((value, i) => {
    const at = round(scale.pixel(value));
    if (axis.showgrid !== false) parts.push(line(isX, at, other.from, other.to, axis.gridcolor ?? ''));
    if (axis.ticks !== '')
      parts.push(line(isX, at, other.from, other.from + (isX ? 4 : -4), axis.tickcolor ?? ''));
    if (axis.showticklabels === false) return;
    const text = axis.ticktext?.[i] ?? value.toFixed(decimals).replace('-', '−');
    parts.push(
      isX
        ? svgText(at, other.from + 6 + size, text, { size, anchor: 'middle', fill: theme.soft })
        : svgText(other.from - 7, at + size * 0.36 - ((numLines(text) - 1) * size * 1.25) / 2, text, {
            size,
            anchor: 'end',
            fill: theme.soft,
          }),
    );
  });
  if (axis.zeroline === true && scale.range[0] < 0 && scale.range[1] > 0) {
    parts.push(line(isX, round(scale.pixel(0)), other.from, other.to, axis.zerolinecolor ?? ''));
  }
  if (axis.title !== undefined && axis.title.text !== '') parts.push(title(frame, scale, other, theme));
  return parts;
}

/** About one label every 70 pixels across, every 45 up. */
function tickCount({ from, to, direction }: Scale): number {
  return Math.max(2, Math.min(6, Math.abs(to - from) / (direction === 'x' ? 70 : 45)));
}

function line(isX: boolean, at: number, from: number, to: number, color: string): string {
  const [x1, x2, y1, y2] = isX ? [at, at, from, to] : [from, to, at, at];
  return `<line x1="${round(x1)}" x2="${round(x2)}" y1="${round(y1)}" y2="${round(y2)}" stroke="${color}"/>`;
}

function title(frame: Frame, scale: Scale, other: Scale, theme: Theme): string {
  const middle = (scale.from + scale.to) / 2;
  const text = scale.axis.title?.text ?? '';
  const style = { size: 11, anchor: 'middle', fill: theme.soft } as const;
  return scale.direction === 'x'
    ? svgText(middle, other.from + 36, text, style)
    : svgText(Math.max(14, other.from - frame.margin.l + 14), middle, text, { ...style, rotate: -90 });
}

import type { Figure } from '../../src/figures/figure';
import { plain } from '../../src/figures/grammar/ink';
import type { Annotation, Axis, Shape, Trace } from '../../src/figures/grammar/plotly';

/** Longer series are shortened to their ends, extremes and sum. */
const MOST_VALUES = 16;

/** A figure as readable lines: its sentences, its axes, its series in three digits, its texts. Style is tested once elsewhere. */
export function digestOf({ title, subtitle, data, layout, quantities }: Figure): string {
  const { annotations = [], shapes = [], height, margin } = layout;
  const axes = Object.entries(layout).filter(([key]) => /^[xy]axis\d*$/.test(key));
  const lines = [
    `title     ${title}`,
    ...subtitle.split('<br>').map((line) => `subtitle  ${plain(line)}`),
    `frame     ${height} high, ${numbers(Object.values(margin ?? {}))}`,
    ...Object.entries(quantities).map(
      ([key, { value, unit, says }]) => `answer    ${key}: ${says(`${number(value)}${unit}`)}`,
    ),
    ...axes.sort(byKey).map(([key, axis]) => axisLine(key, axis as Axis)), // keys of axes only
    ...data.map(traceLine),
    ...shapes.map(shapeLine).sort(),
    ...annotations.map(textLine).sort(),
  ];
  return `${lines.join('\n')}\n`;
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a.replace('axis', '').localeCompare(b.replace('axis', ''), 'en', { numeric: true });
}

function axisLine(
  key: string,
  { domain = [0, 1], range = [0, 1], title, tickvals, ticktext, visible, showticklabels }: Axis,
): string {
  const shown = visible === false ? ' hidden' : showticklabels === false ? ' without labels' : '';
  const said = title === undefined ? '' : ` "${plain(title.text)}"`;
  const texts = ticktext ?? tickvals?.map(number);
  const ticks = texts === undefined ? '' : `: ${texts.map((text) => plain(String(text))).join(' | ')}`;
  return `${key.replace('axis', '').padEnd(9)} ${numbers(range)} on ${numbers(domain)}${shown}${said}${ticks}`;
}

function traceLine(trace: Trace): string {
  const { name = '', xaxis = 'x', x, y, text } = trace;
  const kind = trace.type === 'bar' ? 'bar' : trace.stackgroup !== undefined ? 'area' : trace.mode;
  const hidden = trace.showlegend === false ? '' : ' in legend';
  const base = trace.type === 'bar' && trace.base !== undefined ? `; from ${series(trace.base)}` : '';
  const texts = (text ?? []).filter((one) => one !== '').map(plain);
  const said = texts.length === 0 ? '' : `; ${texts.slice(0, MOST_VALUES).join(' | ')}`;
  return `${kind.padEnd(9)} ${plain(name)}${hidden} on ${xaxis}: x ${series(x)}; y ${series(y)}${base}${said}`;
}

function shapeLine({ type, x0, x1, y0, y1, xref = 'x', yref = 'y' }: Shape): string {
  return `${type.padEnd(9)} on ${xref} ${yref}: ${numbers([x0, y0])} to ${numbers([x1, y1])}`;
}

function textLine({ x, y, text, xref = 'x', yref = 'y' }: Annotation): string {
  return `text      on ${xref} ${yref}: ${numbers([x, y])}: ${plain(text)}`;
}

function series(values: readonly number[]): string {
  if (values.length <= MOST_VALUES) return numbers(values);
  const finite = values.filter(Number.isFinite);
  const sum = finite.reduce((all, value) => all + value, 0);
  return `${values.length} of ${number(Math.min(...finite))} to ${number(Math.max(...finite))}, sum ${number(sum)}`;
}

function numbers(values: readonly number[]): string {
  return values.map(number).join(' ');
}

function number(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : '–';
}

import { createFigure, type Figure, type Title } from './figure';
import { paddedRange, rowAxis, titled } from './grammar/axes';
import { plain, safe, strong } from './grammar/ink';
import { bars, endLabel, lineColor } from './grammar/marks';
import { plot } from './grammar/plot';
import { textWidth, wrappedMarkup } from './grammar/text-width';
import { createTable } from './table';

/** A number with its name. */
export interface Single {
  readonly name: string;
  readonly value: number;
}

const BAR_ROW = 30;
const LINE = 14;
const LABEL_SIZE = 11;
/** The width of a bar's name, in pixels. */
const MAX_NAME = 280;

interface Words {
  readonly title?: string | undefined;
  readonly subtitle?: string | undefined;
  readonly xTitle?: string | undefined;
  readonly yTitle?: string | undefined;
}

/** Draws single numbers as bars, one below the other, with their values. */
export function plotSingles(singles: readonly Single[], options: Words): Figure {
  const names = singles.map(({ name }) =>
    wrappedMarkup(name, LABEL_SIZE, MAX_NAME, (part) => strong(safe(part))),
  );
  const lines = names.map((name) => name.split('<br>'));
  const left = Math.max(60, ...lines.flat().map((text) => textWidth(plain(text), LABEL_SIZE) * 1.1 + 16));
  const row = Math.max(BAR_ROW, ...lines.map((parts) => parts.length * LINE + 8));
  const [low, high] = paddedRange([0, ...singles.map(({ value }) => value)], 0);
  const items = singles.map(({ value }, at) => ({ at, length: value }));
  return createFigure({
    title: options.title ?? findingOf(singles),
    subtitle: safe(options.subtitle ?? ''),
    ...plot({ top: 68, left, right: 90, pixels: singles.length * row + 8, foot: 46 }, [
      {
        x: { range: [low, high + (high - low) * 0.02], ...titleIf(options.yTitle ?? options.xTitle) },
        y: rowAxis(names),
        data: [bars(items, { fill: { color: lineColor(0) }, hover: '<b>%{x}</b>' })],
        annotations: singles.map(({ value }, at) => endLabel(Math.max(0, value), at, exact(value))),
      },
    ]),
    table: createTable(singles.map(({ name, value }) => ({ name, value }))),
  });
}

function findingOf(singles: readonly Single[]): Title {
  const sorted = singles.filter(({ value }) => Number.isFinite(value)).sort((a, b) => a.value - b.value);
  const [least, most] = [sorted[0], sorted.at(-1)];
  if (least === undefined || most === undefined) return 'No number is finite';
  if (least === most) return [`${most.name}: ${exact(most.value)}`];
  return [
    `${most.name} is highest (${exact(most.value)}), ${least.name} is lowest (${exact(least.value)})`,
    `The numbers are from ${exact(least.value)} to ${exact(most.value)}`,
  ];
}

/** Returns an axis's title, if there is one. */
export function titleIf(text: string | undefined) {
  return text === undefined ? {} : titled(safe(text));
}

/** Formats a number with at most four digits. */
export function exact(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  return Number(value.toPrecision(4)).toLocaleString('en-US', { maximumSignificantDigits: 4 });
}

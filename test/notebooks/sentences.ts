import { LEAST_STEPS } from '../../src/figures/step-times';
import type { Notebook, Output } from './executed';

/** A figure as a notebook stores it. */
export interface StoredFigure {
  /** The whole title. */
  readonly heading: string;
  /** The title without the run's name. */
  readonly title: string;
  readonly subtitle: string;
  readonly rows: readonly Readonly<Record<string, string>>[];
}

/** Sentences of an executed notebook that its own numbers contradict, each with the reason. */
export function falseSentences(notebook: Notebook): string[] {
  const figures = figuresOf(notebook);
  return [
    ...figures.flatMap((figure) => CHECKS.flatMap((check) => check(figure))),
    ...equalHeadings(figures),
  ];
}

/** Neighbouring figures with equal titles that name a run: a reader cannot tell them apart. */
function equalHeadings(figures: readonly StoredFigure[]): string[] {
  return figures.flatMap((figure, i) =>
    figure.heading !== figure.title && figure.heading === figures[i + 1]?.heading
      ? problem(figure, 'the next figure has the same title')
      : [],
  );
}

/** All figures of a notebook. */
export function figuresOf({ cells }: Notebook): StoredFigure[] {
  return cells.flatMap(({ outputs = [] }) => outputs.flatMap(figureOf));
}

/** The text of an output; '' if it has none. */
export function textOf({ data }: Output): string {
  const text = data?.['text/plain'];
  return Array.isArray(text) ? text.join('') : typeof text === 'string' ? text : '';
}

function figureOf(output: Output): StoredFigure[] {
  if (output.data?.['image/png'] === undefined) return [];
  const [heading = '', subtitle = '', ...table] = textOf(output)
    .replace(/^step \d+\/\d+ .*\n/, '')
    .split('\n');
  const title = heading.replace(/^.*? · /, '');
  return [{ heading, title, subtitle, rows: rowsOf(table) }];
}

/** Cells of a line under their headings; if the first cells are empty, under the last headings. */
function rowsOf([head = '', ...lines]: readonly string[]): Record<string, string>[] {
  const keys = head.split(/ {2,}/).filter((key) => key !== '');
  return lines.flatMap((line) => {
    const cells = line.trim().split(/ {2,}/);
    if (cells.length !== keys.length && !line.startsWith(' ')) return [];
    const under = keys.slice(-cells.length);
    return [Object.fromEntries(under.map((key, i) => [key, cells[i] ?? '']))];
  });
}

const number = (text: string | undefined): number => Number((text ?? '').replaceAll(',', ''));
const DIVISORS: Readonly<Record<string, number>> = {
  ...{ s: 1, ms: 1e-3, µs: 1e-6 },
  ...{ B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 },
};

/** Whether a written number is a value, rounded to the written digits. */
function isRounded(written: string, value: number): boolean {
  const digits = written.split('.')[1]?.length ?? 0;
  // Table cells themselves have four digits.
  return Math.abs(number(written) - value) <= 0.5 * 10 ** -digits + Math.abs(value) * 1e-3;
}

type Check = (figure: StoredFigure) => string[];

const problem = (figure: StoredFigure, why: string): string[] => [`"${figure.title}": ${why}`];

const nothingBeforeZero: Check = (figure) => {
  const early = figure.rows.find(({ startSeconds }) => number(startSeconds) < -1e-6);
  return early === undefined ? [] : problem(figure, `${early.op} begins before the step`);
};

const comparedTimelines: Check = (figure) => {
  const { title, subtitle, rows } = figure;
  const [first] = rows;
  if (first?.wireWaitSeconds === undefined || first.shownStep === undefined) return [];
  const fewest = Math.min(...rows.map(({ numSteps }) => number(numSteps)));
  const found: string[] = [];
  if (title.startsWith('Too few') !== fewest < LEAST_STEPS) found.push(...problem(figure, `${fewest} steps`));
  const named =
    /^"(.+)" waits ([\d.]+) (m?s|µs)( for the wire)?, and "(.+)" waits ([\d.]+) \S+?(, mostly .*)?$/.exec(
      title,
    );
  if (named !== null) {
    const [, least, low = '', unit = '', forWire, most, high = ''] = named;
    const column = forWire === undefined ? 'waitSeconds' : 'wireWaitSeconds';
    const value = (run: string | undefined): number =>
      number(rows.find((row) => row.run === run)?.[column]) / (DIVISORS[unit] ?? 1);
    if (!isRounded(low, value(least)) || !isRounded(high, value(most)) || value(least) >= value(most))
      found.push(...problem(figure, `the table has ${value(least)} and ${value(most)} ${unit}`));
  }
  found.push(...contraryWaits(figure));
  if (
    subtitle.includes('in all runs a rank receives') &&
    new Set(rows.map(({ wireBytes }) => wireBytes)).size > 1
  )
    found.push(...problem(figure, 'the runs receive different bytes'));
  for (const row of rows) {
    const [shown, low, high] = [
      row.shownWaitSeconds,
      row.lowerQuartileWaitSeconds,
      row.upperQuartileWaitSeconds,
    ];
    if (number(shown) < number(low) / 2 || number(shown) > number(high) * 2)
      found.push(
        ...problem(figure, `${row.run}: ${shown} s are drawn, the quartiles are ${low} and ${high}`),
      );
  }
  return found;
};

/** Checks a title that says that a run waits longer in all, though less for the wire. */
const contraryWaits: Check = (figure) => {
  const said = /^(?:"(.+)"|.*) waits longer.*less for the wire$/.exec(figure.title);
  if (said === null) return [];
  const by = (key: string) => figure.rows.map((row) => number(row[key]));
  const [wire, all] = [by('wireWaitSeconds'), by('waitSeconds')];
  const least = wire.indexOf(Math.min(...wire));
  const isTrue = (all[least] ?? 0) > (all[wire.indexOf(Math.max(...wire))] ?? 0);
  const isNamed = said[1] === undefined || figure.rows[least]?.run === said[1];
  return isTrue && isNamed ? [] : problem(figure, `the table has waits ${all}, for the wire ${wire}`);
};

const oneTimeline: Check = (figure) => {
  const said = /^Ranks wait ([\d.]+) of [\d.]+ (?:m?s|µs)(?: on average)?(?:, mostly (for .*))?$/.exec(
    figure.title,
  );
  if (said === null || !figure.subtitle.includes('Upper lane')) return [];
  const waits = [
    ...figure.subtitle.matchAll(/([\d.]+) (for (?:the wire|a peer|a core|wire, peer or core))/g),
  ];
  const total = waits.reduce((sum, [, value]) => sum + number(value), 0);
  const top = waits.find(([, , kind]) => kind === said[2]);
  const isSame = Math.abs(number(said[1]) - total) <= 0.05 * total + 0.1;
  const isMost = said[2] === undefined || number(top?.[1]) > total * 0.45;
  return isSame && isMost ? [] : problem(figure, `the means in the subtitle add up to ${total}`);
};

const comparedMemoryOverTime: Check = (figure) => {
  const { title, rows } = figure;
  if (rows[0]?.devicePeakBytes === undefined || rows.length < 2) return [];
  const price = /; (?:a step takes ([\d.]+)× as long|too few steps|no clear difference in time)/.exec(title);
  const least = rows.reduce((a, b) => (number(b.devicePeakBytes) < number(a.devicePeakBytes) ? b : a));
  const most = rows.reduce((a, b) => (number(b.devicePeakBytes) > number(a.devicePeakBytes) ? b : a));
  if (price === null) return [];
  const [a, b] = [least, most].map((row) => ({
    low: number(row.lowerQuartileStepSeconds),
    high: number(row.upperQuartileStepSeconds),
  }));
  if (a === undefined || b === undefined) return [];
  const isEnough = Math.min(number(least.numSteps), number(most.numSteps)) >= LEAST_STEPS;
  const isApart = a.high < b.low || b.high < a.low;
  const ratio = number(least.stepSeconds) / number(most.stepSeconds);
  const isClaimed = price[1] !== undefined;
  if (isClaimed !== (isEnough && isApart) || (price[1] !== undefined && !isRounded(price[1], ratio)))
    return problem(figure, `the ratio is ${ratio}, the quartiles ${JSON.stringify([a, b])}`);
  return [];
};

const comparedMemory: Check = (figure) => {
  const { title, rows } = figure;
  if (rows[0]?.residualBytes === undefined || rows[0].measuredBytes === undefined) return [];
  const off = rows.filter(({ residualBytes }) => residualBytes !== '0' && residualBytes !== '—');
  if (off.length > 0) return problem(figure, `a residual of ${off[0]?.residualBytes} B`);
  const said = /^"(.+)" holds ([\d.]+)× the states of "(.+)";/.exec(title);
  if (said === null) return [];
  const held = (run: string | undefined): number =>
    rows.filter((row) => row.run === run).reduce((sum, row) => sum + number(row.measuredBytes), 0);
  const ratio = held(said[1]) / held(said[3]);
  return isRounded(said[2] ?? '', ratio) ? [] : problem(figure, `the table gives ${ratio}`);
};

const comparedBytes: Check = (figure) => {
  const said = /^"(.+)" receives ([\d.]+) (\w+) per step, ([\d.]+)× as much as "(.+)"/.exec(figure.title);
  if (said === null || figure.rows[0]?.paramBytes === undefined) return [];
  const [, most, high = '', unit = '', times = '', least] = said;
  const total = (run: string | undefined): number => {
    const row = figure.rows.find((one) => one.run === run);
    const bytes = [
      row?.paramBytes,
      row?.gradBytes,
      row?.activationBytes ?? '0',
      row?.userBytes,
      row?.otherBytes,
    ].map(number);
    return bytes.reduce((a, b) => a + b, 0) / (DIVISORS[unit] ?? 1);
  };
  return isRounded(high, total(most)) && isRounded(times, total(most) / total(least))
    ? []
    : problem(figure, `the table has ${total(least)} and ${total(most)} ${unit}`);
};

const losses: Check = (figure) => {
  const said = /^The loss (falls|rises) from ([\d.]+) to ([\d.]+) in (\d+) steps?$/.exec(figure.title);
  const values = figure.rows.map(({ loss }) => number(loss));
  if (said === null || values.length !== number(said[4])) return [];
  const [from = 0, to = 0] = [values[0], values.at(-1)];
  const verb = to < from ? 'falls' : 'rises';
  return verb === said[1] && isRounded(said[2] ?? '', from) && isRounded(said[3] ?? '', to)
    ? []
    : problem(figure, `the table goes from ${from} to ${to}`);
};

const comparedPlans: Check = (figure) => {
  const said = /^"(.+)" takes ([\d.]+) (\w+) per [\w ,]+, and "(.+)" takes ([\d.]+) \w+(?:;.*)?$/.exec(
    figure.title,
  );
  if (said === null || figure.rows[0]?.layout === undefined) return [];
  const [, slowest, high = '', unit = '', fastest, low = ''] = said;
  const value = (name: string | undefined): number =>
    number(figure.rows.find(({ layout }) => layout === name)?.seconds) / (DIVISORS[unit] ?? 1);
  return isRounded(high, value(slowest)) && isRounded(low, value(fastest)) && value(slowest) > value(fastest)
    ? []
    : problem(figure, `the table has ${value(slowest)} and ${value(fastest)} ${unit}`);
};

const counts: Check = (figure) => {
  const said = /^Of (\d+) claims (.*)$/.exec(figure.title);
  if (said === null) return [];
  const parts = [...(said[2] ?? '').matchAll(/\d+/g)].reduce((sum, [text]) => sum + number(text), 0);
  return parts === number(said[1]) ? [] : problem(figure, `the parts add up to ${parts}`);
};

const CHECKS: readonly Check[] = [
  nothingBeforeZero,
  comparedTimelines,
  oneTimeline,
  comparedMemoryOverTime,
  comparedMemory,
  comparedBytes,
  losses,
  comparedPlans,
  counts,
];

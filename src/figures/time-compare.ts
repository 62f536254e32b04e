import { mean, type Seconds } from '../core';
import { createFigure, type Figure, quantity, type Title } from './figure';
import { quoted, type Scaled, short, timeScale, timesText } from './format';
import { rowAxis, rowRange, titled } from './grammar/axes';
import { bold, nameLines, safe, soft, widestLabel, wrapped } from './grammar/ink';
import { bars, dots, line, lineColor, note } from './grammar/marks';
import { plot } from './grammar/plot';
import type { RunView } from './run-view';
import { type Cases, casesOf, extremes, type Runs, stepsText, valuesOf, worldsText } from './runs';
import {
  areApart,
  isEqualWork,
  LEAST_STEPS,
  lastSteps,
  quartilesText,
  ratioOf,
  type Spread,
  type StepTimes,
  scaled,
  stepTimes,
  timeRatio,
} from './step-times';
import { createTable } from './table';

const ROW = 46;
const RIGHT = 150;
const MAX_LEFT = 170;
const FRAME = { top: 74, foot: 48 } as const;
/** A lighter blue than that of the quartiles. */
const BAR = { color: '#8CC0EE' } as const;
/** The number of tokens to which times refer if the runs' steps have different numbers of tokens. */
const WORK_TOKENS = 1000;

/** A run's times: per step, or per 1,000 tokens. */
interface TimeCase {
  readonly name: string;
  readonly times: StepTimes;
  readonly spread: Spread;
  /** The time of each step, a mean over ranks. */
  readonly steps: readonly Seconds[];
}

/**
 * Draws the times of the runs' last steps, one row per run: a bar up to the median, a line between the quartiles, and a dot per
 * step. The first step of a run does not count. If the runs' steps have different numbers of tokens, times are per 1,000 tokens.
 * Throws: CONFIG without runs, or if a run has no step.
 */
export function compareTime(runs: Runs): Figure {
  const perStep = casesOf(runs, timeCaseOf);
  const isPerStep = isEqualWork(perStep.map(({ times }) => times));
  const [first, ...rest] = perStep;
  const cases: Cases<TimeCase> = isPerStep ? perStep : [perTokens(first), ...rest.map(perTokens)];
  const unitOf = isPerStep ? 'per step' : `per ${WORK_TOKENS.toLocaleString('en-US')} tokens`;
  const scale = timeScale(Math.max(...cases.flatMap(({ steps, spread }) => [...steps, spread.high])));
  return createFigure({
    title: timeFinding(cases, unitOf),
    subtitle: subtitleOf(runs, cases),
    ...plotTimes(cases, scale, unitOf),
    quantities: { timeRatio: ratioQuantity(cases, unitOf) },
    table: createTable(cases.map((timeCase) => tableRow(timeCase, cases[0]))),
  });
}

function timeCaseOf(name: string, run: RunView): TimeCase {
  const times = stepTimes(run);
  const steps = lastSteps(run).map((records) => mean(records.map(({ start, end }) => end - start)));
  return { name, times, spread: times.step, steps };
}

function perTokens({ name, times, spread, steps }: TimeCase): TimeCase {
  const factor = WORK_TOKENS / (times.tokens ?? WORK_TOKENS);
  return { name, times, spread: scaled(spread, factor), steps: steps.map((seconds) => seconds * factor) };
}

/** Compares the fastest and the slowest run; claims a difference only if the middle halves of their times have no common value. */
function timeFinding(cases: Cases<TimeCase>, unitOf: string): Title {
  const { least, most } = extremes(cases, ({ spread }) => spread.median);
  const { divisor, unit } = timeScale(most.spread.median);
  const [low, high] = [least, most].map(({ spread }) => short(spread.median / divisor));
  if (cases.length === 1) {
    const range = quartilesText(most.spread, divisor);
    return [
      `${quoted(most.name)} takes ${high} ${unit} ${range} ${unitOf}`.replace('  ', ' '),
      `${high} ${unit} ${unitOf}`,
    ];
  }
  const numSteps = Math.min(...cases.map(({ times }) => times.numSteps));
  if (numSteps < LEAST_STEPS) {
    const measured = `${numSteps} measured ${numSteps === 1 ? 'step' : 'steps'}`;
    return [`Too few steps to compare times: ${measured}, ${LEAST_STEPS} are needed`];
  }
  if (!areApart(least.spread, most.spread)) {
    return [
      `No difference beyond the spread: ${low} to ${high} ${unit} ${unitOf}`,
      'No difference in time beyond the spread',
    ];
  }
  const { median, low: from, high: to } = ratioOf(most.spread, least.spread);
  const range = `${timesText(from)}–${timesText(to)}`.replace('×', '');
  const times = `${timesText(median)} (${range})`;
  return [
    `${quoted(most.name)} takes ${times} the time of ${quoted(least.name)} ${unitOf}`,
    `${quoted(most.name)} takes ${times} the time of ${quoted(least.name)}`,
    `${quoted(most.name)} takes ${timesText(median)} the time of ${quoted(least.name)}`,
    `The slowest run takes ${times} the time of the fastest`,
  ];
}

function subtitleOf(runs: Runs, cases: Cases<TimeCase>): string {
  const notes = valuesOf(runs, ({ note: aside }) => aside).filter((aside) => aside !== undefined);
  const where = notes.length === 1 ? `, ${safe(notes[0] ?? '')}` : '';
  return (
    `${worldsText(runs)}${where}. Bar: median of ${stepsText(cases)}; line: quartiles, between which half of the steps are; ` +
    'dot: a step (mean over ranks).'
  );
}

function plotTimes(cases: Cases<TimeCase>, { divisor, unit }: Scaled, unitOf: string) {
  const left = Math.min(MAX_LEFT, widestLabel(cases.map(({ name }) => name)) + 16);
  const names = cases.map(({ name }) => nameLines(name, left - 14));
  const numLines = Math.max(...cases.map(({ name }) => wrapped(name, 11, left - 14).length));
  const pixels = cases.length * Math.max(ROW, numLines * 13.75 + 8);
  const most = Math.max(...cases.flatMap(({ steps, spread }) => [...steps, spread.high]), 1e-9);
  const medians = cases.map(({ spread }, at) => ({
    at,
    length: spread.median / divisor,
    said: `${short(spread.median / divisor)} ${quartilesText(spread, divisor)} ${unit}`,
  }));
  const quartiles = cases.flatMap(({ spread }, at) =>
    spread.low === spread.high
      ? []
      : [
          line(
            { x: [spread.low / divisor, spread.high / divisor], y: [at, at] },
            { width: 3, color: lineColor(0) },
            { hoverinfo: 'skip', showlegend: false },
          ),
        ],
  );
  const all = cases.flatMap(({ steps }, at) =>
    steps.map((seconds) => ({
      x: seconds / divisor,
      y: at + DOTS_BELOW,
      text: `${short(seconds / divisor)} ${unit}`,
    })),
  );
  const panel = {
    x: { range: [0, (most * 1.03) / divisor], ...titled(`${unit} ${unitOf}`, 2) },
    y: rowAxis(names, rowRange(cases.length)),
    data: [
      bars(medians, {
        fill: BAR,
        width: 0.36,
        hover: '%{customdata}<extra>median</extra>',
      }),
      ...quartiles,
      ...dots(all, { size: 5, color: lineColor(1) }, { showlegend: false }),
    ],
    annotations: cases.map((timeCase, at) =>
      note(1.012, at, labelOf(timeCase, cases[0], divisor, unit), { xref: 'paper', align: 'left' }),
    ),
  } as const;
  return plot({ ...FRAME, left, right: RIGHT, pixels }, [panel]);
}

/** How far the dots of a row are below its bar, in rows. */
const DOTS_BELOW = 0.32;

/** Says the median with the quartiles, and the time ÷ the first run's time. */
function labelOf(timeCase: TimeCase, first: TimeCase, divisor: number, unit: string): string {
  const { spread } = timeCase;
  const said = `${bold(`${short(spread.median / divisor)} ${unit}`)} ${soft(quartilesText(spread, divisor))}`;
  if (timeCase === first) return said;
  const { ratio, isClear } = timeRatio(timeCase.times, first.times);
  const isEnough = Math.min(timeCase.times.numSteps, first.times.numSteps) >= LEAST_STEPS;
  const unclear = isEnough ? 'no clear difference' : 'too few steps';
  return `${said}<br>${soft(isClear ? `${ratio.median.toFixed(2)}×` : unclear)}`;
}

function ratioQuantity(cases: Cases<TimeCase>, unitOf: string) {
  const { least, most } = extremes(cases, ({ spread }) => spread.median);
  const { median } = ratioOf(most.spread, least.spread);
  const isClear = areApart(least.spread, most.spread);
  return quantity(median, '×', (times) =>
    isClear
      ? `${quoted(most.name)} takes ${times} the time of ${quoted(least.name)} ${unitOf}`
      : `the medians differ by ${times}, which is not beyond the spread`,
  );
}

function tableRow({ name, times, spread }: TimeCase, first: TimeCase) {
  const { ratio, isClear } = timeRatio(times, first.times);
  return {
    run: name,
    numSteps: times.numSteps,
    tokens: times.tokens,
    seconds: spread.median,
    lowerQuartileSeconds: spread.low,
    upperQuartileSeconds: spread.high,
    timesFirst: ratio.median,
    differsFromFirst: isClear,
    waitSeconds: times.wait.median,
  };
}

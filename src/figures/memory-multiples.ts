import type { MemoryOverTime } from '../ledger/memory';
import { createFigure, type Figure, type Quantities, quantity } from './figure';
import { byteScale, counted, inUnit, quoted, type Scaled, timeScale } from './format';
import { titled } from './grammar/axes';
import { bold, safe, soft } from './grammar/ink';
import { note, PAPER, ruleY, swatches } from './grammar/marks';
import { CAUSE_FILL, STACK_ORDER } from './grammar/palette';
import { type Facet, facets, type Panel, plot } from './grammar/plot';
import { STATIC_WIDTH } from './grammar/template';
import { fits, wrapped, wrappedMarkup } from './grammar/text-width';
import { causeAreas, causesIn, DOTTED, hatchText, type MemoryScales, phaseStrip } from './memory-areas';
import { caseFinding, type MemoryCase, type MemoryChoice, memoryCaseOf } from './memory-case';
import type { RunView } from './run-view';
import { type Cases, casesOf, extremes, type Runs, valuesOf } from './runs';
import { isEqualWork, timeRatio } from './step-times';
import { createTable } from './table';

const TOP = 66;
const LEFT = 54;
const RIGHT = 12;
const WIDTH = STATIC_WIDTH - LEFT - RIGHT;
/** The height, in pixels, of the band of phases above a single run. */
const STRIP_ROOM = 26;
/** Heights of a row of panels, top to bottom, in pixels. */
const HEADING = 38;
const DEVICE = 176;
const GAP = 12;
const HOST = 84;
const MAX_POINTS = 240;

/**
 * Draws each run's memory over one step as small multiples on the same scales: the device above, the host below if it has
 * bytes. The dotted line is the first run's peak. Throws: CONFIG without runs or steps.
 */
export function compareMemoryTimeline(runs: Runs): Figure {
  const cases = casesOf(runs, memoryCaseOf);
  const withHost = cases.some(({ hostPeak }) => hostPeak > 0);
  return multiples(cases, subtitleOf(runs, cases), withHost);
}

/** Draws one rank's memory over a step: the device above, the host below, on one scale. */
export function memorySpaces(run: RunView, choice: MemoryChoice): Figure {
  const one = memoryCaseOf(run.strategy, run, choice);
  const { rank, step } = one.record;
  const where = `Rank ${rank}, step ${step} of ${run.strategy} on ${counted(run.world, 'rank')}`;
  return multiples(
    [one],
    `Held bytes. ${where}: device above host, same scale.${hatchText([one.record])}`,
    true,
  );
}

function multiples(cases: Cases<MemoryCase>, subtitle: string, withHost: boolean): Figure {
  const isAlone = cases.length === 1;
  const share = WIDTH / Math.min(cases.length, 4) - 20;
  const numLines = Math.max(...cases.map(({ name }) => wrapped(name, 11, share).length));
  const grid = facets(cases.length, {
    width: WIDTH,
    heading: isAlone ? 0 : HEADING + (numLines - 1) * 14,
    body: DEVICE + (withHost ? GAP + HOST : 0),
    between: 22,
    gap: 0.025,
  });
  const most = Math.max(...cases.flatMap((one) => [one.devicePeak, one.hostPeak * (DEVICE / HOST)]));
  const longest = Math.max(...cases.map(({ seconds }) => seconds)) || 1e-3;
  const scales = {
    bytes: byteScale(most),
    time: timeScale(longest),
    longest,
    // The bytes per pixel, which are the same in all panels.
    perPixel: (most * 1.06 || 1) / DEVICE,
  };
  const panels = cases.flatMap((one, i) => casePanels(one, cases, grid.all[i], scales, withHost));
  const causes = STACK_ORDER.filter((cause) =>
    cases.some((one) =>
      [one.device, ...(withHost ? [one.host] : [])].some((all) => causesIn(all).includes(cause)),
    ),
  );
  return createFigure({
    title: caseFinding(cases, scales.bytes),
    subtitle,
    ...plot(
      {
        top: TOP + (isAlone ? STRIP_ROOM : 0),
        left: LEFT,
        right: RIGHT,
        pixels: grid.pixels,
        foot: 46,
        legend: 'plot',
      },
      panels,
      { data: swatches(causes, (cause) => CAUSE_FILL[cause]) },
    ),
    quantities: quantitiesOf(cases),
    table: createTable(cases.map(tableRow)),
  });
}

interface Scales extends MemoryScales {
  readonly longest: number;
  readonly perPixel: number;
}

/** Makes a run's panels: the device, and the host below. */
function casePanels(
  one: MemoryCase,
  [base, ...others]: Cases<MemoryCase>,
  facet: Facet | undefined,
  scales: Scales,
  withHost: boolean,
): Panel[] {
  if (facet === undefined) return [];
  const { bytes, time, longest, perPixel } = scales;
  const end = longest / time.divisor || 1;
  const panel = (curve: MemoryOverTime, space: string, from: number, pixels: number): Panel => {
    const isLow = facet.isLow && (space === 'host' || !withHost);
    return {
      x: {
        domain: facet.across,
        range: [0, end],
        showticklabels: isLow,
        ...(isLow ? titled(`${time.unit} in the step`, 6) : {}),
      },
      y: {
        domain: facet.down(from, from + pixels),
        range: [0, (perPixel * pixels) / bytes.divisor || 1],
        showticklabels: facet.isLeft,
        ...(facet.isLeft ? titled(`${bytes.unit} on the ${space}`, 6) : {}),
      },
      data: causeAreas(curve, scales, { maxPoints: MAX_POINTS }),
    };
  };
  const device: Panel = {
    ...panel(one.device, 'device', 0, DEVICE),
    ...(others.length === 0
      ? phaseStrip(one.record, time, { pixels: WIDTH, seconds: longest })
      : {
          shapes: one === base ? [] : [ruleY(base.devicePeak / bytes.divisor, [0, end], DOTTED)],
          annotations: [caption(one, base, bytes, facet)],
        }),
  };
  return withHost ? [device, panel(one.host, 'host', DEVICE + GAP, HOST)] : [device];
}

/** Writes a run's name, its peak, and its step time ÷ the first run's step time. */
function caption(one: MemoryCase, base: MemoryCase, bytes: Scaled, facet: Facet) {
  const name = wrappedMarkup(one.name, 11, facet.pixels - 8, (line) => bold(safe(line)));
  const peak = `peak ${inUnit(one.devicePeak, bytes)}`;
  const wordings = one === base ? [] : timeWordings(one, base, peak);
  const text = wordings.find((wording) => fits(wording, 11, facet.pixels - 4)) ?? peak;
  const place = { ...PAPER, yanchor: 'bottom', align: 'left' } as const;
  return note(facet.across[0], facet.at(0), `${name}<br>${soft(text)}`, place);
}

/**
 * Returns wordings of the run's peak and of its step time ÷ the first run's step time, the longest wording first. If there is
 * no clear difference in time, the wordings say that there is none.
 */
function timeWordings({ times }: MemoryCase, base: MemoryCase, peak: string): string[] {
  const { ratio, isClear } = timeRatio(times, base.times);
  const what = isEqualWork([times, base.times]) ? 'step' : 'token';
  if (!isClear) return [`${peak}, ${what} time: no clear difference`, `${peak}, time unclear`];
  const text = `${peak}, ${what} ${ratio.median.toFixed(2)}×`;
  return [`${text} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`, text];
}

function quantitiesOf(cases: Cases<MemoryCase>): Quantities {
  const { least, most } = extremes(cases, ({ devicePeak }) => devicePeak);
  const ratio = most.devicePeak / (least.devicePeak || 1);
  const reduction = 1 - least.devicePeak / (cases[0].devicePeak || 1);
  const onHost = Math.max(...cases.map(({ hostPeak }) => hostPeak));
  return {
    peakRatio: quantity(
      ratio,
      '×',
      (times) => `the peak of ${quoted(most.name)} is ${times} that of ${quoted(least.name)}`,
    ),
    peakReduction: quantity(
      reduction * 100,
      '%',
      (share) => `${quoted(least.name)} lowers the peak most, by ${share}`,
    ),
    hostMB: quantity(onHost / 1e6, 'MB', (mb) => `up to ${mb} are on the host`),
  };
}

function subtitleOf(runs: Runs, cases: Cases<MemoryCase>): string {
  const counts = cases.map(({ times }) => times.numSteps);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const steps = fewest === most ? counted(most, 'step') : `${fewest}–${most} steps`;
  const times = cases.length > 1 ? ` Times: medians (quartiles) of ${steps}.` : '';
  const where = valuesOf(runs, ({ world }) => counted(world, 'rank')).join(', ');
  return `Held bytes over one step of the fullest rank, ${where}. Dotted: the first run's peak.${times}`;
}

function tableRow({ name, record, devicePeak, hostPeak, times: { step, numSteps, tokens } }: MemoryCase) {
  return {
    run: name,
    rank: record.rank,
    step: record.step,
    devicePeakBytes: devicePeak,
    hostPeakBytes: hostPeak,
    deviceRestBytes: record.memory.restBytes,
    stepSeconds: step.median,
    lowerQuartileStepSeconds: step.low,
    upperQuartileStepSeconds: step.high,
    numSteps,
    tokens,
  };
}

import { ConfigError } from '../core/errors';
import { timeline } from '../ledger/timeline';
import { createFigure, type Figure, type Quantities } from './figure';
import { byteScale, counted, inUnit, type Scaled, timeScale } from './format';
import { bold, safe, soft } from './ink';
import { legendRoom } from './legend-room';
import { type MemoryCase, memoryCaseOf } from './memory-case';
import { caseFinding } from './memory-case-findings';
import { drawPanels, type MemoryPanel } from './memory-panels';
import { phaseStrip, phases } from './phase-strip';
import type { Annotation } from './plotly';
import type { RunView } from './run-view';
import { STATIC_WIDTH } from './static-svg';
import { isEqualWork, timeRatio } from './step-times';
import { createTable, type Table } from './table';
import { fits, shortened } from './text-width';

const MARGIN = { t: 66, r: 12, l: 54 };
/** Above a single run: its phases. */
const STRIP_ROOM = 26;
const AXIS_ROOM = 46;
const FOOT = 6;
/** Heading, device, a gap, host: of one line of panels, in pixels. */
const HEADING = 38;
const DEVICE = 176;
const GAP = 12;
const HOST = 84;
const COLUMN_GAP = 0.025;
const MAX_COLUMNS = 4;

/**
 * Small multiples: each run's memory over one step on the same scales, the device over the host where anything lies there.
 * The dotted line is the first run's peak. Throws: CONFIG without runs or steps.
 */
export function compareMemoryTimeline(runs: Readonly<Record<string, RunView>>): Figure {
  const cases = Object.entries(runs).map(([name, run]) => memoryCaseOf(name, run));
  if (cases.length === 0) throw new ConfigError('no runs to compare; pass an object of runs by name');
  return multiples(
    cases,
    subtitleOf(runs, cases),
    cases.some(({ hostPeak }) => hostPeak > 0),
  );
}

/** One rank's step, the device over the host, on one scale. */
export function memorySpaces(
  run: RunView,
  options: { readonly rank?: number | undefined; readonly step?: number | undefined },
): Figure {
  const one = memoryCaseOf(run.strategy, run, options);
  const { rank, step } = one.record;
  const where = `Rank ${rank}, step ${step} of ${run.strategy} on ${counted(run.world, 'rank')}`;
  const subtitle = `${where}, held bytes: device over host, on one scale. Hatched: transient.`;
  return multiples([one], subtitle, true);
}

function multiples(cases: readonly MemoryCase[], subtitle: string, withHost: boolean): Figure {
  const grid = gridOf(cases.length, withHost);
  const highest = Math.max(
    ...cases.map(({ devicePeak, hostPeak }) => Math.max(devicePeak, hostPeak * (DEVICE / HOST))),
  );
  const bytes = byteScale(highest);
  const longest = Math.max(...cases.map(({ seconds }) => seconds)) || 1e-3;
  const time = timeScale(longest);
  const [base] = cases;
  const panels = cases.flatMap((one, i): MemoryPanel[] => {
    const { across, device, host, isLeft, isLow } = grid.place(i);
    const title = (space: string): string | undefined =>
      isLeft ? `${bytes.unit} on the ${space}` : undefined;
    const xTitle = isLow ? `${time.unit} in the step` : undefined;
    const mark = i === 0 ? undefined : base?.devicePeak;
    const upper = { curve: one.device, across, up: device, yTitle: title('device'), mark };
    if (!withHost) return [{ ...upper, xTitle }];
    const lower = { curve: one.host, across, up: host, yTitle: title('host'), xTitle };
    return [{ ...upper, xTitle: undefined }, lower];
  });
  const drawn = drawPanels(panels, { bytes, time, longest, most: highest * 1.06, tallest: grid.tallest });
  const top = MARGIN.t + (cases.length === 1 ? STRIP_ROOM : 0);
  const legend = legendRoom(drawn.causes, MARGIN.l, STATIC_WIDTH);
  const strip =
    cases.length === 1 && base !== undefined
      ? stripOf(base, time.divisor, longest)
      : { shapes: [], annotations: [] };
  return createFigure({
    title: caseFinding(cases, bytes),
    subtitle,
    data: drawn.data,
    layout: {
      height: top + grid.pixels + AXIS_ROOM + legend + FOOT,
      margin: { ...MARGIN, t: top, b: AXIS_ROOM + legend + FOOT },
      barmode: 'overlay',
      showlegend: true,
      legend: { y: -AXIS_ROOM / grid.pixels },
      ...drawn.axes,
      annotations: [
        ...strip.annotations,
        ...(cases.length === 1 ? [] : cases.map((one, i) => heading(one, base, bytes, grid.place(i)))),
      ],
      shapes: [...drawn.shapes, ...strip.shapes],
    },
    quantities: quantitiesOf(cases),
    table: tableOf(cases),
  });
}

function quantitiesOf(cases: readonly MemoryCase[]): Quantities {
  const [first] = cases;
  if (first === undefined) return {};
  const least = cases.reduce((a, b) => (b.devicePeak < a.devicePeak ? b : a));
  const most = cases.reduce((a, b) => (b.devicePeak > a.devicePeak ? b : a));
  return {
    peakRatio: {
      value: most.devicePeak / (least.devicePeak || 1),
      unit: '×',
      says: (times) => `the peak of ${most.name} is ${times} that of ${least.name}`,
    },
    peakReduction: {
      value: (1 - least.devicePeak / (first.devicePeak || 1)) * 100,
      unit: '%',
      says: (share) => `${least.name} lowers the peak most, by ${share}`,
    },
    hostMB: {
      value: Math.max(...cases.map(({ hostPeak }) => hostPeak)) / 1e6,
      unit: 'MB',
      says: (mb) => `up to ${mb} lie on the host`,
    },
  };
}

interface Place {
  readonly across: readonly [number, number];
  readonly device: readonly [number, number];
  readonly host: readonly [number, number];
  /** Where a heading's last line ends. */
  readonly top: number;
  readonly pixels: number;
  readonly isLeft: boolean;
  /** Whether no panel of its column lies below. */
  readonly isLow: boolean;
}

interface Grid {
  readonly pixels: number;
  readonly tallest: number;
  place(index: number): Place;
}

/** Panels in lines of up to four. */
function gridOf(count: number, withHost: boolean): Grid {
  const columns = Math.min(count, MAX_COLUMNS);
  const lines = Math.ceil(count / columns);
  const headingPixels = count === 1 ? 0 : HEADING;
  const body = DEVICE + (withHost ? GAP + HOST : 0);
  const between = lines > 1 ? 22 : 0;
  const pixels = lines * (headingPixels + body) + (lines - 1) * between;
  const width = (1 - (columns - 1) * COLUMN_GAP) / columns;
  return {
    pixels,
    tallest: DEVICE / pixels,
    place(index) {
      const column = index % columns;
      const top = Math.floor(index / columns) * (headingPixels + body + between) + headingPixels;
      const at = (fromTop: number): number => 1 - fromTop / pixels;
      const left = column * (width + COLUMN_GAP);
      return {
        across: [left, Math.min(1, left + width)],
        device: [at(top + DEVICE), at(top)],
        host: [Math.max(0, at(top + body)), at(top + DEVICE + GAP)],
        top: at(top),
        pixels: width * (STATIC_WIDTH - MARGIN.l - MARGIN.r),
        isLeft: column === 0,
        isLow: index + columns >= count,
      };
    },
  };
}

/** A run's name, its peak, and how long its steps take beside the first run's. */
function heading(one: MemoryCase, base: MemoryCase | undefined, bytes: Scaled, place: Place): Annotation {
  const name = bold(safe(shortened(one.name, 11, place.pixels - 8)));
  const peak = `peak ${inUnit(one.devicePeak, bytes)}`;
  const wordings = one === base || base === undefined ? [] : timeWordings(one, base, peak);
  const text = wordings.find((wording) => fits(wording, 11, place.pixels - 4)) ?? peak;
  return {
    x: place.across[0],
    y: place.top,
    xref: 'paper',
    yref: 'paper',
    text: `${name}<br>${soft(text)}`,
    showarrow: false,
    xanchor: 'left',
    yanchor: 'bottom',
    align: 'left',
    font: { size: 11 },
  };
}

/** What the run's steps take beside the first run's, or that this cannot be said. */
function timeWordings(one: MemoryCase, base: MemoryCase, peak: string): string[] {
  const { ratio, isClear } = timeRatio(one.times, base.times);
  const { median, low, high } = ratio;
  const what = isEqualWork([one.times, base.times]) ? 'step' : 'token';
  if (!isClear) return [`${peak}, ${what} time: no clear difference`, `${peak}, time unclear`];
  const text = `${peak}, ${what} ${median.toFixed(2)}×`;
  return [`${text} (${low.toFixed(2)}–${high.toFixed(2)})`, text];
}

/** The step's phases above a single run's panels. */
function stripOf(one: MemoryCase, divisor: number, seconds: number) {
  const pixels = STATIC_WIDTH - MARGIN.l - MARGIN.r;
  return phaseStrip(phases(timeline(one.record)), (at) => at / divisor, { pixels, seconds });
}

function subtitleOf(runs: Readonly<Record<string, RunView>>, cases: readonly MemoryCase[]): string {
  const worlds = [...new Set(Object.values(runs).map(({ world }) => world))];
  const counts = [...new Set(cases.map(({ times }) => times.numSteps))].sort((a, b) => a - b);
  const steps = counts.length > 1 ? `${counts[0]}–${counts.at(-1)}` : `${counts[0]}`;
  const times =
    cases.length > 1 ? ` Times: medians (quartiles) of ${steps} ${steps === '1' ? 'step' : 'steps'}.` : '';
  const where = worlds.map((world) => counted(world, 'rank')).join(', ');
  return `Held bytes of the fullest rank over one step, ${where}. Dotted: the first run's peak.${times}`;
}

function tableOf(cases: readonly MemoryCase[]): Table {
  return createTable(
    cases.map(({ name, record, devicePeak, hostPeak, times: { step, numSteps, tokens } }) => ({
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
    })),
  );
}

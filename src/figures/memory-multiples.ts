import { ConfigError } from '../core/errors';
import type { MemoryOverTime } from '../ledger/memory';
import { timeline } from '../ledger/timeline';
import { createFigure, type Figure, type Quantities } from './figure';
import { byteScale, counted, inUnit, type Scaled, timeScale } from './format';
import { titled } from './grammar/axes';
import { type Facet, facets } from './grammar/facets';
import { bold, safe, soft } from './grammar/ink';
import { note, PAPER, ruleY, swatches } from './grammar/marks';
import { CAUSE_FILL, STACK_ORDER } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import type { Annotation } from './grammar/plotly';
import { STATIC_WIDTH } from './grammar/template';
import { fits, wrapped, wrappedMarkup } from './grammar/text-width';
import { causeAreas, causesIn, DOTTED } from './memory-areas';
import { caseFinding, type MemoryCase, memoryCaseOf } from './memory-case';
import { phaseStrip, phases } from './phase-strip';
import type { RunView } from './run-view';
import { isEqualWork, timeRatio } from './step-times';
import { createTable, type Table } from './table';

const TOP = 66;
const LEFT = 54;
const RIGHT = 12;
/** Above a single run: its phases. */
const STRIP_ROOM = 26;
/** Heading, device, a gap, host: of one line of panels, in pixels. */
const HEADING = 38;
const DEVICE = 176;
const GAP = 12;
const HOST = 84;
const MAX_POINTS = 240;

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
  const width = STATIC_WIDTH - LEFT - RIGHT;
  const isAlone = cases.length === 1;
  const body = DEVICE + (withHost ? GAP + HOST : 0);
  const share = width / Math.min(cases.length, 4) - 20;
  const numLines = Math.max(...cases.map(({ name }) => wrapped(name, 11, share).length));
  const grid = facets(cases.length, {
    width,
    heading: isAlone ? 0 : HEADING + (numLines - 1) * 14,
    body,
    between: 22,
    gap: 0.025,
  });
  const peaks = cases.map(({ devicePeak, hostPeak }) => Math.max(devicePeak, hostPeak * (DEVICE / HOST)));
  const longest = Math.max(...cases.map(({ seconds }) => seconds)) || 1e-3;
  const scales: Scales = {
    bytes: byteScale(Math.max(...peaks)),
    time: timeScale(longest),
    longest,
    // All panels have the same bytes per pixel.
    perPixel: (Math.max(...peaks) * 1.06 || 1) / DEVICE,
  };
  const [base] = cases;
  const panels = grid.all.flatMap((facet, i) =>
    casePanels(cases[i] ?? base, base, facet, { scales, withHost }),
  );
  const causes = STACK_ORDER.filter((cause) =>
    cases.some(
      ({ device, host }) => causesIn(device).includes(cause) || (withHost && causesIn(host).includes(cause)),
    ),
  );
  const top = TOP + (isAlone ? STRIP_ROOM : 0);
  return createFigure({
    title: caseFinding(cases, scales.bytes),
    subtitle,
    ...plot(
      { top, left: LEFT, right: RIGHT, pixels: grid.pixels, foot: 46, legend: 'plot' },
      isAlone ? panels.map((panel, i) => (i === 0 ? withStrip(panel, base, scales, width) : panel)) : panels,
      { data: swatches(causes, (cause) => CAUSE_FILL[cause]) },
    ),
    quantities: quantitiesOf(cases),
    table: tableOf(cases),
  });
}

interface Scales {
  readonly bytes: Scaled;
  readonly time: Scaled;
  readonly longest: number;
  readonly perPixel: number;
}

/** A run's device, and its host below. */
function casePanels(
  one: MemoryCase | undefined,
  base: MemoryCase | undefined,
  facet: Facet,
  { scales, withHost }: { readonly scales: Scales; readonly withHost: boolean },
): Panel[] {
  if (one === undefined || base === undefined) return [];
  const { bytes, time, longest, perPixel } = scales;
  const end = longest / time.divisor || 1;
  const panel = (
    curve: MemoryOverTime,
    space: string,
    from: number,
    pixels: number,
    isLow: boolean,
  ): Panel => ({
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
    data: causeAreas(curve, { bytes, time }, { maxPoints: MAX_POINTS }),
  });
  const device: Panel = {
    ...panel(one.device, 'device', 0, DEVICE, facet.isLow && !withHost),
    shapes: one === base ? [] : [ruleY(base.devicePeak / bytes.divisor, [0, end], DOTTED)],
    annotations: facet.at(0) === 1 ? [] : [caption(one, base, bytes, facet)],
  };
  return withHost ? [device, panel(one.host, 'host', DEVICE + GAP, HOST, facet.isLow)] : [device];
}

/** The step's phases above a single run's panels. */
function withStrip(
  panel: Panel,
  one: MemoryCase | undefined,
  { time, longest }: Scales,
  pixels: number,
): Panel {
  if (one === undefined) return panel;
  const place = { pixels, seconds: longest };
  return { ...panel, ...phaseStrip(phases(timeline(one.record)), (at) => at / time.divisor, place) };
}

/** A run's name, its peak, and how long its steps take beside the first run's. */
function caption(one: MemoryCase, base: MemoryCase, bytes: Scaled, facet: Facet): Annotation {
  const name = wrappedMarkup(one.name, 11, facet.pixels - 8, (line) => bold(safe(line)));
  const peak = `peak ${inUnit(one.devicePeak, bytes)}`;
  const wordings = one === base ? [] : timeWordings(one, base, peak);
  const text = wordings.find((wording) => fits(wording, 11, facet.pixels - 4)) ?? peak;
  const place = { ...PAPER, yanchor: 'bottom', align: 'left' } as const;
  return note(facet.across[0], facet.at(0), `${name}<br>${soft(text)}`, place);
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

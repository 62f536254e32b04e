import type { Bytes, MemoryCause } from '../core';
import {
  type BytesByCause,
  leftAtPeak,
  type MemoryOverTime,
  memoryAtPeak,
  memoryOverTime,
  type StepRecord,
  temporaries,
  timeline,
  totalBytes,
} from '../ledger';
import { createFigure, type Figure, type Quantities, quantity } from './figure';
import { byteScale, counted, inUnit, percent, quoted, type Scaled, short, timeScale } from './format';
import { titled } from './grammar/axes';
import { bold, safe, soft, strong } from './grammar/ink';
import { filled, note, pointed, ruleY, spread, swatches } from './grammar/marks';
import { CAUSE_FILL, STACK_ORDER } from './grammar/palette';
import { type Caption, type Facet, type Layer, type Panel, plotFacets } from './grammar/plot';
import type { Annotation, Axis, BarTrace } from './grammar/plotly';
import { STATIC_WIDTH } from './grammar/template';
import {
  causeAreas,
  causesIn,
  DOTTED,
  hatchText,
  type MemoryScales,
  phaseStrip,
  totalLine,
} from './memory-areas';
import { type MemoryCase, type MemoryChoice, memoryCaseOf } from './memory-case';
import { caseFinding, peakFinding, peakQuantities, spacesFinding } from './memory-words';
import { nameOf, type RunView } from './run-view';
import { type Cases, casesOf, extremes, type Runs, stepsText, worldsText } from './runs';
import { isEqualWork, timeRatio } from './step-times';
import { createTable, type Table } from './table';

const FRAME = { left: 54, right: 12, foot: 46 } as const;
const WIDTH = STATIC_WIDTH - FRAME.left - FRAME.right;
/** The share of the width that one rank's curve has beside the peak by cause. */
const ALONE_SHARE = 0.675;
/** The most dotted lines. If there would be more, only the ranks with the highest and the lowest peak have dotted lines. */
const MAX_DOTTED = 8;

/** The heights of a facet's parts, in pixels; `host` is 0 if the host is not drawn. */
interface Sizes {
  readonly top: number;
  readonly heading: number;
  readonly device: number;
  readonly host: number;
  readonly maxPoints: number;
}

const ALONE: Sizes = { top: 92, heading: 0, device: 282, host: 0, maxPoints: 500 };
const SPACES: Sizes = { top: 92, heading: 0, device: 176, host: 84, maxPoints: 240 };
const COMPARED: Sizes = { top: 66, heading: 38, device: 176, host: 84, maxPoints: 240 };
/** The space between the device and the host, in pixels. */
const GAP = 12;

/** Draws one rank's memory over a step by cause, with the step's phases above it and the peak by cause beside it. */
export function memoryTimeline(run: RunView, choice: MemoryChoice = {}): Figure {
  const memoryCase = memoryCaseOf(run.strategy, run, choice);
  const { record, records } = memoryCase;
  const others = otherRanks(records, record);
  const atPeak = memoryAtPeak(record);
  const scales = scalesOf(
    Math.max(...records.map(({ memory }) => memory.peakBytes)),
    Math.max(...[record, ...others.records].map(({ start, end }) => end - start)),
  );
  const { ring } = temporaries(record).atPeak;
  const beside = peakPanels({ atPeak, ring }, causesIn(memoryCase.device), scales.bytes, ALONE.device);
  const over = (): Layer => {
    const strip = phaseStrip(record, scales.time, { pixels: WIDTH * ALONE_SHARE, seconds: scales.longest });
    return {
      data: others.records.map((peer) =>
        totalLine(memoryOverTime(peer), peer.rank, scales, ALONE.maxPoints / 2),
      ),
      annotations: [...peakNote(record, scales), ...strip.annotations],
      shapes: strip.shapes,
    };
  };
  return createFigure({
    runName: nameOf(run),
    title: peakFinding(atPeak, leftAtPeak(record), run.world).wordings,
    subtitle: `${placeOf(run, record)}.${missingText(record)}${others.text}${hatchText([record])}`,
    ...plotCases([memoryCase], ALONE, scales, over, { beside }),
    table: tableOf(record, memoryCase.device),
    quantities: peakQuantities(atPeak),
  });
}

/** Draws one rank's memory over a step: the device above, the host below, on one scale. */
export function memorySpaces(run: RunView, choice: MemoryChoice): Figure {
  const memoryCase = memoryCaseOf(run.strategy, run, choice);
  const scales = scalesOf(mostOf([memoryCase], SPACES), memoryCase.seconds);
  return createFigure({
    runName: nameOf(run),
    title: spacesFinding(memoryCase),
    subtitle: `Held bytes. ${placeOf(run, memoryCase.record)}: device above host, same scale.${hatchText([memoryCase.record])}`,
    ...plotCases([memoryCase], SPACES, scales, () =>
      phaseStrip(memoryCase.record, scales.time, { pixels: WIDTH, seconds: scales.longest }),
    ),
    quantities: quantitiesOf([memoryCase]),
    table: createTable([tableRow(memoryCase)]),
  });
}

/**
 * Draws each run's memory over one step as a facet, on the same scales: the device above, the host below if it has bytes. The
 * dotted line is the first run's peak. Throws: CONFIG without runs or steps.
 */
export function compareMemoryTimeline(runs: Runs): Figure {
  const cases = casesOf(runs, memoryCaseOf);
  const [base] = cases;
  const hasHost = cases.some(({ hostPeak }) => hostPeak > 0);
  const sizes = { ...COMPARED, host: hasHost ? COMPARED.host : 0 };
  const scales = scalesOf(mostOf(cases, sizes), Math.max(...cases.map(({ seconds }) => seconds)));
  const { bytes, time, longest } = scales;
  return createFigure({
    title: caseFinding(cases, bytes),
    subtitle: comparedSubtitle(runs, cases),
    ...plotCases(
      cases,
      sizes,
      scales,
      (memoryCase) => {
        const peak = ruleY(base.devicePeak / bytes.divisor, [0, longest / time.divisor], DOTTED);
        return { shapes: memoryCase === base ? [] : [peak] };
      },
      {
        captions: cases.map((memoryCase) => ({
          name: memoryCase.name,
          wordings: captionWordings(memoryCase, base, bytes),
        })),
      },
    ),
    quantities: quantitiesOf(cases),
    table: createTable(cases.map(tableRow)),
  });
}

interface Scales extends MemoryScales {
  readonly longest: number;
  /** The most bytes that the device's axis has to show. */
  readonly most: number;
}

function scalesOf(most: number, seconds: number): Scales {
  const longest = seconds || 1e-3;
  return { bytes: byteScale(most), time: timeScale(longest), longest, most };
}

/** Returns the most bytes that the device's axis shows, if a byte is as high on the host's axis. */
function mostOf(cases: Cases<MemoryCase>, { device, host }: Sizes): number {
  return Math.max(
    ...cases.flatMap(({ devicePeak, hostPeak }) => [devicePeak, host > 0 ? (hostPeak * device) / host : 0]),
  );
}

/**
 * Draws each case in a facet: areas of the device above areas of the host, with the same axes in all facets. `over` returns the
 * other marks on the device's axes. `beside` replaces the legend.
 */
function plotCases(
  cases: Cases<MemoryCase>,
  { top, heading, device, host, maxPoints }: Sizes,
  scales: Scales,
  over: (memoryCase: MemoryCase) => Layer,
  {
    beside = [],
    captions = [],
  }: { readonly beside?: readonly Panel[]; readonly captions?: readonly Caption[] } = {},
) {
  const { bytes, time, longest, most } = scales;
  const perPixel = (most * 1.08 || 1) / device;
  const spaces = [
    { space: 'device', from: 0, pixels: device } as const,
    ...(host > 0 ? [{ space: 'host', from: device + GAP, pixels: host } as const] : []),
  ];
  const panelsOf = (memoryCase: MemoryCase, facet: Facet): Panel[] =>
    spaces.map(({ space, from, pixels }, i) => {
      const isLow = facet.isLow && i === spaces.length - 1;
      const { data = [], ...marks } = i === 0 ? over(memoryCase) : {};
      return {
        x: {
          domain: facet.across,
          range: [0, longest / time.divisor],
          showticklabels: isLow,
          ...(isLow ? titled(`${time.unit} in the step`, 6) : {}),
        },
        y: {
          domain: facet.down(from, from + pixels),
          range: [0, (perPixel * pixels) / bytes.divisor],
          showticklabels: facet.isLeft,
          ...(facet.isLeft ? titled(`${bytes.unit} on the ${space}`, 6) : {}),
        },
        data: [
          ...causeAreas(memoryCase[space], scales, maxPoints, `rank ${memoryCase.record.rank}`),
          ...data,
        ],
        ...marks,
      };
    });
  const isSeen = (cause: (typeof STACK_ORDER)[number]): boolean =>
    cases.some((memoryCase) => spaces.some(({ space }) => causesIn(memoryCase[space]).includes(cause)));
  const keys = beside.length === 0 ? swatches(STACK_ORDER.filter(isSeen), (cause) => CAUSE_FILL[cause]) : [];
  return plotFacets(
    cases,
    { ...FRAME, top, ...(beside.length === 0 ? { legend: 'plot' } : {}) },
    {
      heading,
      body: device + (host > 0 ? GAP + host : 0),
      between: 22,
      gap: 0.025,
      share: beside.length === 0 ? 1 : ALONE_SHARE,
    },
    panelsOf,
    { beside, captions, data: keys },
  );
}

/**
 * Returns the other ranks to draw as dotted lines, and a sentence about these ranks. Only ranks with a curve are drawn; if
 * there are many, only the ranks with the lowest and the highest peak.
 */
function otherRanks(all: readonly StepRecord[], { rank }: StepRecord) {
  const records = all.filter((peer) => peer.rank !== rank && peer.memory.curve !== null);
  const ranks = records.map((peer) => peer.rank);
  if (records.length === 0) return { records, text: '' };
  if (records.length === 1) return { records, text: ` Dotted: total of rank ${ranks[0]}.` };
  if (records.length <= MAX_DOTTED) {
    const isRun = ranks.every((member, i) => i === 0 || member === (ranks[i - 1] ?? 0) + 1);
    const names = isRun ? `${ranks[0]} to ${ranks.at(-1)}` : ranks.join(', ');
    return { records, text: ` Dotted: totals of ranks ${names}.` };
  }
  const sorted = records.sort((a, b) => a.memory.peakBytes - b.memory.peakBytes);
  const ends = [...sorted.slice(0, 1), ...sorted.slice(-1)];
  const names = ends.map((end) => end.rank).join(' and ');
  return { records: ends, text: ` Dotted: ranks ${names}, lowest and highest.` };
}

function placeOf(run: RunView, { rank, step }: StepRecord): string {
  return `Rank ${rank}, step ${step} of ${run.strategy} on ${counted(run.world, 'rank')}`;
}

function missingText({ memory }: StepRecord): string {
  return memory.curve === null ? ' Only the start, the peak and the end were stored.' : '';
}

/** Labels the peak with its bytes and its moment in the step; the label is right of the peak if there is room. */
function peakNote(record: StepRecord, { bytes, time }: MemoryScales): Annotation[] {
  const { peakBytes, peakSeconds } = record.memory;
  const seconds = record.end - record.start;
  if (peakBytes === 0 || seconds <= 0) return [];
  const text = `${bold(`peak ${inUnit(peakBytes, bytes)}`)} ${strong(safe(momentOf(record)))}`;
  const aside = peakSeconds > seconds * 0.55 ? -26 : 26;
  return [pointed(peakSeconds / time.divisor, peakBytes / bytes.divisor, text, { aside, below: -11 })];
}

function momentOf(record: StepRecord): string {
  const at = record.memory.peakSeconds;
  const { main } = timeline(record);
  const now = main.findLast((segment) => segment.kind !== 'wait' && segment.start <= at + 1e-6);
  if (now === undefined) return 'before the forward pass';
  if (now.kind === 'loss') return 'in the loss';
  return now.module === '' || now.module.length > 18 ? `in ${now.kind}` : `in ${now.kind} of ${now.module}`;
}

/**
 * Returns wordings of the run's peak and of its step time ÷ the first run's step time, the longest wording first. If there is
 * no clear difference in time, the wordings say that there is none.
 */
function captionWordings(memoryCase: MemoryCase, base: MemoryCase, bytes: Scaled): string[] {
  const peak = `peak ${inUnit(memoryCase.devicePeak, bytes)}`;
  if (memoryCase === base) return [peak];
  const { ratio, isClear } = timeRatio(memoryCase.times, base.times);
  const what = isEqualWork([memoryCase.times, base.times]) ? 'step' : 'token';
  if (!isClear) return [`${peak}, ${what} time: no clear difference`, `${peak}, time unclear`, peak];
  const text = `${peak}, ${what} ${ratio.median.toFixed(2)}×`;
  return [`${text} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`, text, peak];
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

function comparedSubtitle(runs: Runs, cases: Cases<MemoryCase>): string {
  const times = cases.length > 1 ? ` Times: medians (quartiles) of ${stepsText(cases)}.` : '';
  const where = worldsText(runs);
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

function tableOf(record: StepRecord, { seconds, byCause, ring }: MemoryOverTime): Table {
  const { rank, step } = record;
  const rows = seconds.flatMap((at, i) =>
    STACK_ORDER.map((cause) => ({
      seconds: at,
      rank,
      step,
      cause,
      bytes: byCause[cause][i] ?? 0,
      ringBytes: cause === 'temp' ? (ring[i] ?? 0) : null,
    })),
  );
  const peak = memoryAtPeak(record);
  const atPeak = temporaries(record).atPeak;
  const causes = STACK_ORDER.map((cause) => `${cause} ${peak[cause]}`).join(', ');
  const title = `peak ${totalBytes(peak)} B: ${causes} (pool ${atPeak.pool}, ring ${atPeak.ring})`;
  return createTable(rows, { title });
}

const ABSENT_ROW = 18;
const LABEL_GAP = 14;
/** The x at which the labels begin, right of the bar's end. */
const LABEL = 0.58;
const ACROSS: Axis = { domain: [0.705, 1], range: [-0.5, 3.6], visible: false, fixedrange: true };
const UP: Axis = { visible: false, fixedrange: true };
/** If ring temporaries hold fewer bytes than this, the label does not show them. */
const LEAST_RING: Bytes = 1e3;

/**
 * Draws the peak as one bar whose labels are the figure's legend, and below it the causes that are absent at the peak. `ring`
 * is the bytes of temporaries that are passed from unit to unit; the other temporaries are freed within a unit.
 */
function peakPanels(
  { atPeak, ring }: { readonly atPeak: BytesByCause; readonly ring: Bytes },
  seen: readonly MemoryCause[],
  { divisor, unit }: Scaled,
  pixels: number,
): Panel[] {
  const total = totalBytes(atPeak);
  const absent = seen.filter((cause) => atPeak[cause] === 0);
  const foot = (absent.length * ABSENT_ROW) / pixels;
  const [from, to] = [foot === 0 ? 0 : foot + 0.06, 0.96];
  let base = 0;
  const segments = seen.flatMap((cause) => {
    const bytes = atPeak[cause];
    base += bytes;
    const [held, share] = [short(bytes / divisor), percent(bytes / total)];
    return bytes > 0 ? [{ cause, bytes, start: base - bytes, held, share }] : [];
  });
  const perByte = ((to - from) * pixels) / total;
  const middles = segments.map(({ bytes, start }) => (start + bytes / 2) * perByte);
  // Each segment has a label at its middle; labels of thin segments are moved apart.
  const places = spread(middles, LABEL_GAP, 5, (to - from) * pixels - 4);
  const labels = segments.map(({ cause, held, share }, i) => {
    // The temporaries are the topmost segment (STACK_ORDER), so there is room beside their label.
    const ringText = cause === 'temp' && ring >= LEAST_RING ? soft(`, ring ${short(ring / divisor)}`) : '';
    const text = `${strong(cause)} ${bold(held)} ${soft(share)}${ringText}`;
    return note(LABEL, (places[i] ?? 0) / perByte / divisor, text);
  });
  const caption = { yref: 'paper', xshift: -3, yanchor: 'bottom' } as const;
  return [
    {
      x: ACROSS,
      y: { ...UP, domain: [from, to], range: [0, total / divisor || 1] },
      data: segments.map(({ cause, bytes, start, held, share }) => ({
        ...bar(cause, start / divisor, bytes / divisor),
        name: cause,
        hovertemplate: `<b>${cause}</b> ${held} ${unit}, ${share} of the peak<extra></extra>`,
      })),
      annotations: [
        ...(total > 0 ? [note(-0.45, 0.965, soft(`at the peak, ${unit}`), caption)] : []),
        ...labels,
      ],
    },
    {
      x: ACROSS,
      y: { ...UP, domain: [0, foot || 0.01], range: [-Math.max(1, absent.length), 0] },
      data: absent.map((cause, row) => ({ ...bar(cause, -row - 0.75, 0.5), hoverinfo: 'skip' })),
      annotations: absent.map((cause, row) =>
        note(LABEL, -row - 0.5, `${strong(cause)}${soft(' not at peak')}`),
      ),
    },
  ];
}

function bar(cause: MemoryCause, base: number, height: number): BarTrace {
  return { ...filled(CAUSE_FILL[cause]), width: 0.9, x: [0], y: [height], base: [base] };
}

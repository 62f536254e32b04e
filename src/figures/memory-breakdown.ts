import { ConfigError } from '../core/errors';
import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import type { Estimate } from '../plan/prediction';
import { breakdownFinding } from './breakdown-finding';
import { createFigure, type Figure, type Quantities } from './figure';
import { byteScale, inUnit, type Scaled, short } from './format';
import { soft, strong } from './ink';
import { legendRoom } from './legend-room';
import { CAUSE_FILL, NEUTRAL, STACK_ORDER } from './palette';
import type { Annotation, Shape } from './plotly';
import {
  type DrawnStacks,
  drawStacks,
  type StackPanel,
  type StackRow,
  type StackStyle,
  stackLegend,
  stackLegendPlace,
} from './stacked-rows';
import { STATIC_WIDTH } from './static-svg';
import { createTable, type Table } from './table';

export type CauseBytes = Readonly<Partial<Record<MemoryCause, Bytes>>>;

/** What one case holds at its peak, by cause, as it is told from up to three sides. A cause left out is not named there. */
export interface BreakdownCase {
  /** As '8 x A100-80G, Wan 27B'. */
  readonly name: string;
  readonly documented?: CauseBytes | undefined;
  readonly predicted?: CauseBytes | undefined;
  readonly measured?: CauseBytes | undefined;
  /** Range of the predicted sum. */
  readonly predictedPeak?: Estimate | undefined;
  /** Of the card. */
  readonly capacityBytes?: Bytes | undefined;
}

export const SOURCES = ['documented', 'predicted', 'measured'] as const;
export type Source = (typeof SOURCES)[number];

const MARGIN_TOP = 58;
const MARGIN_BOTTOM = 30;
/** Pixels of a row's total, right of its bar. */
const TOTAL_ROOM = 44;

const STYLE: StackStyle<MemoryCause> = {
  order: STACK_ORDER,
  fillOf: (cause) => CAUSE_FILL[cause],
  hover: (cause) => `<b>${cause}</b> %{customdata:,} B<extra></extra>`,
};

/**
 * Memory documented, predicted and measured as stacked bars, a panel a case, and what the last case's sources differ by below,
 * by cause; a cause that the document does not name is said. Throws: CONFIG without cases.
 */
export function memoryBreakdown(cases: readonly BreakdownCase[], subtitle: string): Figure {
  const last = cases.at(-1);
  if (last === undefined) throw new ConfigError('no case to break down; pass at least one');
  const residual = residualOf(last);
  const panels = [...cases.map(casePanel), ...(residual === null ? [] : [residual.panel])];
  const drawn = drawStacks(panels, STYLE, 0);
  const causes = seenCauses(cases);
  const legend = legendRoom(causes, 10, STATIC_WIDTH);
  const bottom = MARGIN_BOTTOM + legend;
  return createFigure({
    title: breakdownFinding(cases),
    subtitle,
    data: [...drawn.data, ...stackLegend(STYLE, causes)],
    layout: {
      height: drawn.plotHeight + MARGIN_TOP + bottom,
      margin: { t: MARGIN_TOP, r: drawn.right, l: drawn.left, b: bottom },
      barmode: 'overlay',
      showlegend: true,
      legend: stackLegendPlace(drawn),
      ...drawn.axes,
      annotations: [
        ...drawn.annotations,
        ...cases.flatMap((one, i) => capacityText(one, i)),
        ...(residual === null ? [] : absentTexts(residual, cases.length)),
      ],
      shapes: cases.flatMap((one, i) => capacityLine(one, i, drawn)),
    },
    table: tableOf(cases),
    quantities: quantitiesOf(last),
  });
}

/** The sum of a source's causes. */
export function totalOf(bytes: CauseBytes): Bytes {
  return STACK_ORDER.reduce((sum, cause) => sum + (bytes[cause] ?? 0), 0);
}

function scaleOf(one: BreakdownCase): Scaled {
  return byteScale(Math.max(0, ...SOURCES.map((source) => totalOf(one[source] ?? {}))));
}

function casePanel(one: BreakdownCase): StackPanel<MemoryCause> {
  const scale = scaleOf(one);
  const rows = SOURCES.flatMap((source): StackRow<MemoryCause>[] => {
    const values = one[source];
    if (values === undefined) return [];
    return [{ name: source, values }];
  });
  return {
    heading: `${strong(`<b>${one.name}</b>`)}${soft(`, ${scale.unit} per rank${rangeText(one, scale)}${agreement(one)}`)}`,
    rows,
    scale,
    ...(one.capacityBytes === undefined ? {} : { reach: one.capacityBytes * 1.01 }),
  };
}

function rangeText({ predicted, predictedPeak }: BreakdownCase, { divisor }: Scaled): string {
  if (predicted === undefined || predictedPeak === undefined) return '';
  const { low, high } = predictedPeak;
  return low < high ? `; predicted ${short(low / divisor)} to ${short(high / divisor)}` : '';
}

/** Where a measurement stands beside a prediction, whether they are equal. */
function agreement({ predicted, measured }: BreakdownCase): string {
  if (predicted === undefined || measured === undefined) return '';
  const off = STACK_ORDER.some((cause) => (predicted[cause] ?? 0) !== (measured[cause] ?? 0));
  return off ? '' : '; exact: residual 0 B';
}

interface Residual {
  readonly panel: StackPanel<MemoryCause>;
  /** Row by row: what is to be said of a cause that is predicted and not named; its bar goes left. */
  readonly absent: readonly { readonly row: number; readonly text: string }[];
}

/** What is stated or measured minus what is predicted, by cause; null where nothing can be compared or nothing differs. */
function residualOf(one: BreakdownCase): Residual | null {
  const { predicted } = one;
  const source = one.documented === undefined ? 'measured' : 'documented';
  const other = one[source];
  if (predicted === undefined || other === undefined) return null;
  const causes = STACK_ORDER.filter((cause) => (predicted[cause] ?? 0) + (other[cause] ?? 0) > 0);
  const rows = causes.map((cause): StackRow<MemoryCause> => {
    const name = predicted[cause] === undefined ? `${cause}, not predicted` : cause;
    return { name, values: { [cause]: (other[cause] ?? 0) - (predicted[cause] ?? 0) } };
  });
  const largest = Math.max(...causes.map((cause) => Math.abs((other[cause] ?? 0) - (predicted[cause] ?? 0))));
  if (largest === 0) return null;
  const scale = byteScale(largest);
  const absent = causes.flatMap((cause, row) =>
    other[cause] === undefined ? [{ row, text: `not in the ${NOUNS[source]}` }] : [],
  );
  const heading = `${strong('<b>Residual</b>')}${soft(`: ${source} minus predicted, ${scale.unit}`)}`;
  return { panel: { heading, rows, scale, isSigned: true, isSingle: true }, absent };
}

const NOUNS = { documented: 'document', measured: 'measurement' } as const;

function absentTexts({ absent }: Residual, index: number): Annotation[] {
  const suffix = index === 0 ? '' : String(index + 1);
  return absent.map(({ row, text }) => ({
    x: 0,
    y: row,
    xref: `x${suffix}`,
    yref: `y${suffix}`,
    text: soft(text),
    showarrow: false,
    xanchor: 'left',
    xshift: TOTAL_ROOM,
    font: { size: 11 },
  }));
}

function capacityLine(one: BreakdownCase, index: number, drawn: DrawnStacks): Shape[] {
  if (one.capacityBytes === undefined || drawn.plotHeight === 0) return [];
  const suffix = index === 0 ? '' : String(index + 1);
  const x = one.capacityBytes / scaleOf(one).divisor;
  const count = SOURCES.filter((source) => one[source] !== undefined).length;
  return [
    {
      type: 'line',
      xref: `x${suffix}`,
      yref: `y${suffix}`,
      x0: x,
      x1: x,
      y0: count - 0.5,
      y1: -0.5,
      line: { width: 1.5, color: NEUTRAL, dash: 'dash' },
    },
  ];
}

function capacityText(one: BreakdownCase, index: number): Annotation[] {
  if (one.capacityBytes === undefined) return [];
  const suffix = index === 0 ? '' : String(index + 1);
  return [
    {
      x: one.capacityBytes / scaleOf(one).divisor,
      y: -0.5,
      xref: `x${suffix}`,
      yref: `y${suffix}`,
      text: soft(`${inUnit(one.capacityBytes, byteScale(one.capacityBytes))} usable`),
      showarrow: false,
      xanchor: 'right',
      yanchor: 'bottom',
      font: { size: 11 },
    },
  ];
}

function seenCauses(cases: readonly BreakdownCase[]): MemoryCause[] {
  return STACK_ORDER.filter((cause) =>
    cases.some((one) => SOURCES.some((source) => (one[source]?.[cause] ?? 0) > 0)),
  );
}

function tableOf(cases: readonly BreakdownCase[]): Table {
  return createTable(
    cases.flatMap((one) =>
      STACK_ORDER.filter((cause) => SOURCES.some((source) => one[source]?.[cause] !== undefined)).map(
        (cause) => ({
          case: one.name,
          cause,
          documentedBytes: one.documented?.[cause] ?? null,
          predictedBytes: one.predicted?.[cause] ?? null,
          measuredBytes: one.measured?.[cause] ?? null,
        }),
      ),
    ),
  );
}

function quantitiesOf(one: BreakdownCase): Quantities {
  const entries = SOURCES.flatMap((source) => {
    const bytes = one[source];
    if (bytes === undefined) return [];
    const value = totalOf(bytes) / 1e9;
    return [
      [`${source}GB`, { value, unit: 'GB', says: (gb: string) => `${one.name} has ${gb} ${source}` }],
    ] as const;
  });
  const params = one.predicted?.['param.shard'];
  if (params === undefined) return Object.fromEntries(entries);
  const paramsGB = {
    value: params / 1e9,
    unit: 'GB',
    says: (gb: string) => `${one.name} is predicted to hold ${gb} of parameters`,
  };
  return { ...Object.fromEntries(entries), paramsGB };
}

import { ConfigError } from '../../core/errors';
import type { MemoryCause } from '../../core/events';
import { createFigure, type Figure, type Quantities } from '../figure';
import { byteScale, inUnit, type Scaled, short } from '../format';
import { soft } from '../grammar/ink';
import { note } from '../grammar/marks';
import { STACK_ORDER } from '../grammar/palette';
import { CAUSE_STYLE, capacity, plotStacks, type StackPanel } from '../grammar/stacks';
import { createTable, type Table } from '../table';
import { type BreakdownCase, breakdownFinding, SOURCES, totalOf } from './breakdown-case';

type Panel = StackPanel<MemoryCause>;

/**
 * Memory documented, predicted and measured as stacked bars, a panel a case, and what the last case's sources differ by below,
 * by cause; a cause that the document does not name is said. Throws: CONFIG without cases.
 */
export function memoryBreakdown(cases: readonly BreakdownCase[], subtitle: string): Figure {
  const last = cases.at(-1);
  if (last === undefined) throw new ConfigError('no case to break down; pass at least one');
  return createFigure({
    title: breakdownFinding(cases),
    subtitle,
    ...plotStacks([...cases.map(casePanel), ...residualPanel(last)], CAUSE_STYLE),
    table: tableOf(cases),
    quantities: quantitiesOf(last),
  });
}

function casePanel(one: BreakdownCase): Panel {
  const scale = byteScale(Math.max(0, ...SOURCES.map((source) => totalOf(one[source] ?? {}))));
  const rows = SOURCES.flatMap((source) => {
    const values = one[source];
    return values === undefined ? [] : [{ name: source, values }];
  });
  const { capacityBytes } = one;
  return {
    heading: one.name,
    aside: `, ${scale.unit} per rank${rangeText(one, scale)}${agreement(one)}`,
    rows,
    scale,
    ...(capacityBytes === undefined
      ? {}
      : {
          reach: capacityBytes * 1.01,
          over: capacity(
            capacityBytes / scale.divisor,
            rows.length,
            `${inUnit(capacityBytes, byteScale(capacityBytes))} usable`,
          ),
        }),
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

/** Pixels of a row's total, right of its bar. */
const TOTAL_ROOM = 44;

/** What is stated or measured minus what is predicted, by cause; none where nothing can be compared or nothing differs. */
function residualPanel(one: BreakdownCase): Panel[] {
  const { predicted } = one;
  const source = one.documented === undefined ? 'measured' : 'documented';
  const other = one[source];
  if (predicted === undefined || other === undefined) return [];
  const causes = STACK_ORDER.filter((cause) => (predicted[cause] ?? 0) + (other[cause] ?? 0) > 0);
  const off = (cause: MemoryCause): number => (other[cause] ?? 0) - (predicted[cause] ?? 0);
  const largest = Math.max(...causes.map((cause) => Math.abs(off(cause))));
  if (largest === 0) return [];
  const scale = byteScale(largest);
  const rows = causes.map((cause) => ({
    name: predicted[cause] === undefined ? `${cause}, not predicted` : cause,
    values: { [cause]: off(cause) },
  }));
  // The bar of a cause that is predicted and not named goes left: right of it is room for words.
  const absent = causes.flatMap((cause, row) =>
    other[cause] === undefined
      ? [note(0, row, soft(`not in the ${NOUNS[source]}`), { xshift: TOTAL_ROOM })]
      : [],
  );
  const aside = `: ${source} minus predicted, ${scale.unit}`;
  return [
    {
      heading: 'Residual',
      aside,
      rows,
      scale,
      isSigned: true,
      isSingle: true,
      over: { annotations: absent },
    },
  ];
}

const NOUNS = { documented: 'document', measured: 'measurement' } as const;

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

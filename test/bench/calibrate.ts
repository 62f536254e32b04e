import { accuracyOf } from '../../src/planner/accuracy';
import { CALIBRATION, type Calibration } from '../../src/planner/calibration';
import { type ReproducedRow, reproducedRows } from '../../src/planner/measured/published-tables';
import { predictTime } from '../../src/planner/time/predict-time';
import { nelderMead } from './nelder-mead';

/** The constants that [Note: what was fitted on what] calls fitted, with the largest value of each. */
const FITTED: Partial<Record<keyof Calibration, number>> = {
  gemmEfficiency: 1,
  gemmTail: 1,
  wholeHeadEfficiency: 1,
  launchSeconds: 1e-4,
  handOverSeconds: 1e-2,
  hostSkew: 0.1,
};

/** Fits the constants again, starting from the stored ones, and prints them with their errors. scripts/calibrate.mjs runs this. */
function main(rounds: number): void {
  const weights = [
    { name: 'vtrain', weight: 1 },
    { name: 'megatron-table-1', weight: 1 / 2 },
    { name: 'mpt', weight: 1 / 2 },
    { name: 'torchtitan', weight: 1 / 8 },
  ] as const;
  const sets = weights.map(({ name, weight }) => {
    const rows = reproducedRows(name);
    const [fit, heldOut] = [true, false].map((wanted) => rows.filter((row) => row.isFitted === wanted));
    return { name, weight, fit: fit ?? [], heldOut: heldOut ?? [] };
  });
  const names = Object.keys(FITTED) as (keyof Calibration)[]; // keys of FITTED are a calibration's
  const at = (x: readonly number[]): Calibration => ({
    ...CALIBRATION,
    ...Object.fromEntries(
      names.map((name, i) => [name, Math.min(FITTED[name] ?? 1, CALIBRATION[name] * Math.exp(x[i] ?? 0))]),
    ),
  });
  const cost = (x: readonly number[]): number =>
    sets.reduce((sum, { fit, weight }) => sum + weight * mean(fit, at(x)), 0);
  const found = at(nelderMead(cost, names.length, { step: 0.15, rounds }));
  const lines = [
    ...names.map((name) => `${name}: ${CALIBRATION[name]} → ${found[name].toPrecision(3)}`),
    ...sets.map(({ name, fit }) => report(`${name}, fitted`, fit, found)),
    ...sets.flatMap(({ name, heldOut }) =>
      heldOut.length === 0 ? [] : [report(`${name}, held out`, heldOut, found)],
    ),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

function errorsOf(rows: readonly ReproducedRow[], calibration: Calibration) {
  return accuracyOf(
    rows.map(({ layout, published }) => ({
      predicted: predictTime(layout, calibration).seconds,
      measured: published,
    })),
  );
}

function mean(rows: readonly ReproducedRow[], calibration: Calibration): number {
  return (
    rows.reduce(
      (sum, { layout, published }) =>
        sum + Math.abs(predictTime(layout, calibration).seconds / published - 1),
      0,
    ) / rows.length
  );
}

function report(name: string, rows: readonly ReproducedRow[], calibration: Calibration): string {
  const { count, mean: error, median, worst, bias, pairsRanked } = errorsOf(rows, calibration);
  const percent = (share: number): string => `${(100 * share).toFixed(2)}%`;
  return `${name}, ${count}: mean error ${percent(error)}, median ${percent(median)}, worst ${percent(worst)}, bias ${percent(bias)}, pairs ranked right ${percent(pairsRanked)}`;
}

main(Number(process.argv[2] ?? 400));

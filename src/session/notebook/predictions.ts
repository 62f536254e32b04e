import { type ProgressPlace, withProgress } from '../../cell';
import { formatBytes, formatSeconds, type Shown, shownAsText, withShown } from '../../core';
import {
  type Column,
  createTable,
  type Figure,
  planFigures,
  sessionGuesses,
  type Table,
} from '../../figures';
import { accuracyOf } from '../../planner';
import { type OwnRuns, type OwnRunsOptions, ownRuns } from './own-runs';

/** This machine's own runs, compared with their predictions. Shown in a notebook as a table. */
export interface Predictions extends OwnRuns, Shown {
  /** Mean absolute value of the runs' `error`. */
  readonly meanError: number;
  readonly worstError: number;
  /** The mean error of data-parallel runs, and the mean error of runs with divided models; 0 if there are no such runs. */
  readonly dataParallelError: number;
  readonly modelParallelError: number;
  /** Whether the peak bytes and the collectives of every run were exactly as predicted. */
  readonly isExactInBytes: boolean;
  readonly table: Table;
  figure(): Figure;
}

const COLUMNS: readonly Column[] = [
  { key: 'run' },
  { key: 'predicted', format: (value) => formatSeconds(Number(value)) },
  { key: 'measured', format: (value) => formatSeconds(Number(value)) },
  { key: 'error', format: (value) => percent(Number(value)) },
  { key: 'predictedBytes', title: 'peak predicted', format: (value) => formatBytes(Number(value)) },
  { key: 'measuredBytes', title: 'peak measured', format: (value) => formatBytes(Number(value)) },
  { key: 'predictedReceived', title: 'received predicted', format: (value) => formatBytes(Number(value)) },
  { key: 'measuredReceived', title: 'received measured', format: (value) => formatBytes(Number(value)) },
  { key: 'others', title: "others' threads", format: (value) => Number(value).toFixed(1) },
];

/**
 * Predicts runs of this machine from measurements at one world size, executes the runs, and compares step times and bytes.
 * Takes minutes; predicted times are accurate only if other programs use few cores.
 * Throws: CONFIG for wrong options, and errors of `launch` and `train`.
 */
export async function predictions(
  options: OwnRunsOptions = {},
  place: ProgressPlace = {},
): Promise<Predictions> {
  return predictionsOf(
    await withProgress('predicting runs', 'runs', (show) => ownRuns(options, show), place),
  );
}

/** Summarises runs that were predicted and executed. */
export function predictionsOf({ measured, runs }: OwnRuns): Predictions {
  const pairs = runs.map(({ name, predictedSeconds, measuredSeconds }) => ({
    id: name,
    predicted: predictedSeconds,
    measured: measuredSeconds,
  }));
  const { mean, worst } = accuracyOf(pairs);
  const meanOf = (isDivided: boolean): number =>
    accuracyOf(pairs.filter((_, i) => (runs[i]?.layout !== null) === isDivided)).mean;
  const [dataParallelError, modelParallelError] = [meanOf(false), meanOf(true)];
  const rows = runs.map(({ layout: _, link: __, ...run }) => {
    return { ...run, run: run.name, predicted: run.predictedSeconds, measured: run.measuredSeconds };
  });
  const table = createTable(rows, { columns: COLUMNS });
  const isExactInBytes = runs.every((run) => run.predictedBytes === run.measuredBytes && run.isSameTraffic);
  const text = [
    table.toText(runs.length),
    `Step times: mean error ${percent(mean)}, worst ${percent(worst)}; data parallel ${percent(dataParallelError)}, ` +
      `divided models ${percent(modelParallelError)}. Peak and received bytes ${isExactInBytes ? 'are as predicted' : 'differ from the prediction'}. ` +
      `Calibrated on one job of ${measured.world} ranks.`,
  ].join('\n');
  const subtitle = `${runs.length} kinds of steps on this machine, predicted from one job of ${measured.world} ranks; band: ±8%.`;
  const figure = (): Figure => sessionGuesses().reveal(planFigures.accuracy(pairs, { subtitle }));
  const errors = { meanError: mean, worstError: worst, dataParallelError, modelParallelError };
  const fields = { measured, runs, ...errors, isExactInBytes, table, figure };
  return withShown(fields, shownAsText(text));
}

function percent(share: number): string {
  return `${share < 0 ? '−' : ''}${Math.abs(share * 100).toFixed(0)}%`;
}

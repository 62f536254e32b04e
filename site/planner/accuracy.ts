import { byId, el, table } from './dom';
import rivals from './rivals.json';

/** A line of the table of errors in the documents, which a test computes again. */
interface ErrorRow {
  readonly framework: string;
  readonly source: string;
  readonly runs: string;
  readonly meanError: string;
  readonly medianRatio: string;
  readonly worstRatio: string;
  readonly inside: string;
}

/** Draws the errors by framework, and beside those of other predictors. */
export function accuracy(): HTMLElement {
  // The build writes the lines of the documents' table into the page (scripts/lib/planner-page.mjs).
  const errors = JSON.parse(byId('error-rows').textContent ?? '[]') as readonly ErrorRow[];
  return el(
    'div',
    {},
    el(
      'p',
      {},
      'Predicted against published times of whole trainings. Ratios are predicted ÷ published. An interval should contain the measured time of 80% of runs.',
    ),
    table(
      'Errors by framework and source',
      [
        'framework',
        'published by',
        'runs',
        'mean error',
        'median ratio',
        'worst ratio',
        'inside the interval',
      ],
      errors.map((row) => [
        row.framework,
        row.source,
        row.runs,
        row.meanError,
        row.medianRatio,
        row.worstRatio,
        row.inside,
      ]),
      [1],
    ),
    el(
      'p',
      {},
      `${rivals.says} All columns were measured on ${rivals.date}; since then, constants were fitted on some of these runs, and the table above has the errors of this version.`,
    ),
    table(
      'Beside other predictors: mean absolute error',
      [
        'published runs',
        'runs',
        `shardlab on ${rivals.date}`,
        'LLM Cluster Simulator',
        'one constant efficiency',
      ],
      rivals.rows.map(({ table: name, runs, shardlab, simulator, efficiency }) => [
        name,
        String(runs),
        percent(shardlab),
        percent(simulator),
        percent(efficiency),
      ]),
    ),
  );
}

function percent(share: number | null): string {
  return share === null ? '–' : `${(100 * share).toFixed(1)}%`;
}

import { availableParallelism } from 'node:os';
import type { TrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import type { Figure } from '../../figures/figure';
import type { DataFrame } from '../../figures/frame';
import { lossCurve } from '../../figures/loss-curve';
import { notRecorded, type RunView } from '../../figures/run-view';
import { createTable } from '../../figures/table';
import { forecastRun, type RunForecast } from '../../plan/dry-run/forecast';
import { type Link, linkText } from '../../transport/link';
import { sessionGuesses } from './guesses';
import { placeText, type RunHistory } from './history';

/** The numbers behind a run's figures. */
export type RunFrames = Readonly<Record<'steps' | 'memory' | 'comm' | 'timeline', DataFrame>>;

/** Returns what figures read of a run, with a forecast by a dry run of its config. */
export function viewOf({
  config,
  ...run
}: Omit<RunView, 'strategy' | 'forecast'> & { readonly config: TrainConfig }): RunView {
  let known: RunForecast | null | undefined;
  return {
    ...run,
    strategy: config.parallel.strategy,
    forecast() {
      if (known === undefined) known = forecastRun(config, run.world);
      return known;
    },
  };
}

/** Returns the view of the phase of a step (default: of the last step, even if the run was resharded after it). */
export function viewOfStep(history: RunHistory, link: Link | undefined, step?: number): RunView {
  const phase = history.stepsOf(step ?? history.lastStep);
  if (step !== undefined && history.steps.numSteps > 0 && !phase.records.some((one) => one.step === step)) {
    throw notRecorded(step, history.firstStep, history.lastStep);
  }
  return viewOf({ ...phase, note: noteOf(phase.world, link) });
}

/** Draws a figure, and shows the user's guesses about it. Throws: CONFIG before the first step. */
export function figureOf(history: RunHistory, draw: () => Figure): Figure {
  if (history.steps.numSteps > 0) return sessionGuesses().reveal(draw());
  throw new ConfigError(
    'this run has taken no step yet, so there is nothing to draw; await run.step() first',
  );
}

/** Draws the loss over all steps, with a mark at each reshard. */
export function lossFigure(history: RunHistory): Figure {
  const [first, ...later] = history.phases;
  const marks = later.map((phase) => ({ step: phase.firstStep, text: placeText(phase) }));
  const name = later.length === 0 ? (first?.config.parallel.strategy ?? '') : '';
  return lossCurve([{ name, ...history.lossesByStep() }], { marks });
}

/** Returns the results of all steps as a table. */
export function stepsFrame(history: RunHistory): Promise<DataFrame> {
  const results = history.steps.results();
  return createTable(
    results.map(({ spans, ...result }) => ({ ...result, ...spans, loss: result.loss })),
  ).frame();
}

/** Returns a note that says how `world` ranks share this machine's cores, and over which link they communicate. */
function noteOf(world: number, link: Link | undefined): string {
  const ranks = world === 1 ? '1 rank has' : 'which share';
  const cores = availableParallelism();
  const wire = link === undefined ? '' : `, ${linkText(link)}`;
  return `${ranks} ${cores} ${cores === 1 ? 'core' : 'cores'}${wire}`;
}

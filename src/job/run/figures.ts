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

/** A run as figures see it, with what a dry run of its config predicts. */
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

/** The view of a step's phase (default: the last step's); between a reshard and the first step after it, the earlier phase. */
export function viewOfStep(history: RunHistory, link: Link | undefined, step?: number): RunView {
  const phase = history.stepsOf(step ?? history.lastStep);
  if (step !== undefined && history.steps.numSteps > 0 && !phase.records.some((one) => one.step === step)) {
    throw notRecorded(step, history.firstStep, history.lastStep);
  }
  return viewOf({ ...phase, note: noteOf(phase.world, link) });
}

/** Draws, and shows the user's guesses about the figure. Throws: CONFIG before the first step. */
export function figureOf(history: RunHistory, draw: () => Figure): Figure {
  if (history.steps.numSteps > 0) return sessionGuesses().reveal(draw());
  throw new ConfigError(
    'this run has taken no step yet, so there is nothing to draw; await run.step() first',
  );
}

/** The loss over all steps, with a mark at each reshard. */
export function lossFigure(history: RunHistory): Figure {
  const [first, ...later] = history.phases;
  const marks = later.map((phase) => ({ step: phase.firstStep, text: placeText(phase) }));
  const name = later.length === 0 ? (first?.config.parallel.strategy ?? '') : '';
  return lossCurve([{ name, ...history.lossesByStep() }], { marks });
}

/** The results of all steps as a table. */
export function stepsFrame(history: RunHistory): Promise<DataFrame> {
  const results = history.steps.results();
  return createTable(
    results.map(({ spans, ...result }) => ({ ...result, ...spans, loss: result.loss })),
  ).frame();
}

/** How `world` ranks share this machine, and over which wire. */
function noteOf(world: number, link: Link | undefined): string {
  const ranks = world === 1 ? '1 rank has' : 'which share';
  const cores = availableParallelism();
  const wire = link === undefined ? '' : `, ${linkText(link)}`;
  return `${ranks} ${cores} ${cores === 1 ? 'core' : 'cores'}${wire}`;
}

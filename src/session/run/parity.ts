import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type ShowProgress, withProgress } from '../../cell';
import { countSchema, parseOptions, placeText, positiveSchema, type ShapeOf } from '../../config';
import {
  type NamedView,
  type ParityFigure,
  type ParityStep,
  parityFigure,
  type RunView,
} from '../../figures';
import type { SavedBeside } from '../../launch';
import type { RunParts } from './calls';
import { saveRun } from './checkpoints';
import { requireSameTraining } from './parity-configs';
import { ParityValues } from './parity-values';

/** Options that say how `run.parity` compares two runs. */
export interface ParityOptions {
  /** Number of steps that both runs train. Default 3. */
  readonly steps?: number;
  /** The largest relative difference that counts as equal. Default 1e-3. */
  readonly tolerance?: number;
}

const OPTIONS = {
  steps: countSchema.default(3),
  tolerance: positiveSchema.default(1e-3),
} satisfies ShapeOf<ParityOptions>;

/** A run's parts, with the folder of its job. */
type ComparedParts = RunParts & { readonly folder: string };

/** The parts of a run that a comparison needs. */
export interface ComparedRun {
  readonly parts: ComparedParts;
  readonly run: { readonly view: RunView; step(): Promise<unknown> };
  /** Runs `work` while the run does nothing else. */
  readonly take: (work: () => Promise<unknown>) => Promise<unknown>;
}

type Pair = readonly [ComparedRun, ComparedRun];

/** Trains two runs side by side and compares them; `Run.parity` says how. */
export async function compareTraining(runs: Pair, options: ParityOptions): Promise<ParityFigure> {
  const { steps: numSteps, tolerance } = parseOptions('run.parity(other, { … })', options, OPTIONS);
  requireSameTraining(runs[0].parts, runs[1].parts);
  const [one, other] = runs;
  const values = new ParityValues(one.parts.history.phase.config.optimizer.kind, tolerance);
  const folders = [folderOf(one), folderOf(other)] as const;
  try {
    const steps = await withProgress('parity', 'steps', (show) =>
      trainBoth(runs, { numSteps, folders, values, show }),
    );
    return parityFigure({
      ...namedViews(runs),
      steps,
      parameters: values.parameters,
      tolerance,
    });
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  }
}

interface Comparison {
  readonly numSteps: number;
  readonly folders: readonly [string, string];
  readonly values: ParityValues;
  readonly show: ShowProgress;
}

/** Compares the parameters before the first step, and then losses, gradients and parameters of each step. */
async function trainBoth(
  [one, other]: Pair,
  { numSteps, folders, values, show }: Comparison,
): Promise<ParityStep[]> {
  const { history } = one.parts;
  const compare = async (beside: SavedBeside): Promise<ParityStep> => {
    await save(one, folders[0], beside);
    await save(other, folders[1], beside);
    const losses = beside === 'nothing' ? null : ([lastLoss(one), lastLoss(other)] as const);
    return { step: history.lastStep, losses, ...values.compare(folders) };
  };
  const steps = [await compare('nothing')];
  for (let i = 0; i < numSteps; i++) {
    show(i, numSteps);
    await one.run.step();
    await other.run.step();
    steps.push(await compare('gradients'));
  }
  return steps;
}

/** Saves whole tensors, not shards, so that each tensor can be read alone. */
function save({ parts, take }: ComparedRun, folder: string, beside: SavedBeside): Promise<unknown> {
  return take(() => saveRun(parts, folder, { type: 'FULL_STATE_DICT' }, { beside }));
}

function folderOf({ parts }: ComparedRun): string {
  return join(parts.folder, `run-${parts.number}-parity`);
}

function lastLoss({ parts }: ComparedRun): number {
  return parts.history.losses.at(-1) ?? Number.NaN;
}

/** Returns the runs with their names for figures: the engines; if these are equal, the strategies; else 'this run' and 'other run'. */
function namedViews([one, other]: Pair): { readonly base: NamedView; readonly compared: NamedView } {
  const engineOf = ({ parts: { torch } }: ComparedRun): string =>
    torch === undefined ? 'shardlab' : `PyTorch ${torch.framework}`;
  const strategyOf = ({ parts }: ComparedRun): string => placeText(parts.history.phase);
  const names = [engineOf, strategyOf].find((of) => of(one) !== of(other));
  const [first, second] = names === undefined ? ['this run', 'other run'] : [names(one), names(other)];
  return { base: { name: first, view: one.run.view }, compared: { name: second, view: other.run.view } };
}

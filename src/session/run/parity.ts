import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { inspect, isDeepStrictEqual } from 'node:util';
import { type ShowProgress, withProgress } from '../../cell';
import {
  countSchema,
  parseOptions,
  placeText,
  positiveSchema,
  SETTING_ROWS,
  type ShapeOf,
  settingAt,
} from '../../config';
import { ConfigError } from '../../core';
import {
  counted,
  type DifferingEvent,
  type NamedView,
  type ParityFigure,
  type ParityStep,
  parityFigure,
  type RunView,
} from '../../figures';
import type { SavedBeside } from '../../launch';
import type { RunParts } from './calls';
import { saveRun } from './checkpoints';
import { eventBetweenRuns } from './made-events';
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
      trainBoth(runs, { numSteps, folders, values, tolerance, show }),
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
  readonly tolerance: number;
  readonly show: ShowProgress;
}

/** Compares the parameters before the first step, and then losses, gradients and parameters of each step. */
async function trainBoth(
  [one, other]: Pair,
  { numSteps, folders, values, tolerance: given, show }: Comparison,
): Promise<ParityStep[]> {
  // Runs that compute in the same way are equal to the bit.
  const tolerance = computeAlike(one.parts, other.parts) ? null : given;
  const { history } = one.parts;
  const compare = async (beside: SavedBeside): Promise<ParityStep> => {
    await save(one, folders[0], beside);
    await save(other, folders[1], beside);
    const losses = beside === 'nothing' ? null : ([lastLoss(one), lastLoss(other)] as const);
    return { step: history.lastStep, losses, ...values.compare(folders) };
  };
  const steps = [await compare('nothing')];
  let event: DifferingEvent | null = null;
  for (let i = 0; i < numSteps; i++) {
    show(i, numSteps);
    const isLocated = event !== null;
    for (const { run, parts } of isLocated ? [] : [one, other]) await parts.made.during(() => run.step());
    if (isLocated) {
      await one.run.step();
      await other.run.step();
    }
    event ??= await eventBetweenRuns([one.parts, other.parts], tolerance);
    steps.push({ ...(await compare('gradients')), event });
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

/** Settings that change how a step is computed, but not its result; compared runs may differ in these settings. */
const HOW = [
  'parallel',
  'mixedPrecision',
  'gradScaler',
  'offload',
  'activationCheckpointing',
  'optimizer.fused',
];

function computeAlike(one: Compared, other: Compared): boolean {
  const [mine, its] = [one.history.phase, other.history.phase];
  const isSame = HOW.every((how) =>
    isDeepStrictEqual(settingAt(mine.config, how), settingAt(its.config, how)),
  );
  return isSame && mine.world === its.world && one.torch === undefined && other.torch === undefined;
}

/** All other settings, which change a step's result; the list has each setting of a section, not the section. */
const WHAT = SETTING_ROWS.map(({ path }) => path).filter(
  (path, _, all) =>
    !HOW.some((how) => path === how || path.startsWith(`${how}.`)) &&
    !all.some((part) => part.startsWith(`${path}.`)),
);

type Compared = Pick<RunParts, 'history' | 'torch'>;

/**
 * Throws: CONFIG if two runs differ in settings that change a step's result, in the number of data-parallel ranks, or in the
 * number of steps so far; the message names each difference. Throws: CONFIG for a run on DeepSpeed.
 */
function requireSameTraining(one: Compared, other: Compared): void {
  if (one.history === other.history)
    throw new ConfigError(
      'run.parity compares two runs, and was given the same run twice; make another with job.train(config)',
    );
  if ([one, other].some(({ torch }) => torch?.framework === 'deepspeed'))
    throw new ConfigError(
      'run.parity compares gradients after a step, and DeepSpeed has freed them by then; compare a run of framework fsdp2, or only the ' +
        "losses, as sl.compare({ one, other }, 'loss')",
    );
  const [{ config, world }, theirs] = [one.history.phase, other.history.phase];
  // Only the learning rate's schedule reads the number of steps of the training.
  const read = WHAT.filter((path) => path !== 'steps' || config.schedule !== null);
  const differences = read.flatMap((path) => {
    const [mine, its] = [settingAt(config, path), settingAt(theirs.config, path)];
    return JSON.stringify(mine) === JSON.stringify(its) ? [] : [`${path}: ${said(mine)} and ${said(its)}`];
  });
  const [numHere, numThere] = [numReplicas(config, world), numReplicas(theirs.config, theirs.world)];
  if (numHere !== numThere)
    differences.push(`ranks with batches of their own (ranks ÷ tp, pp and cp): ${numHere} and ${numThere}`);
  if (differences.length > 0) {
    throw new ConfigError(
      `run.parity compares runs that compute the same, but these two differ in:\n${differences.join('\n')}\nMake both with the same ` +
        `settings; only ${HOW.join(', ')} may differ`,
      { differences },
    );
  }
  const [mine, its] = [one.history.lastStep, other.history.lastStep];
  if (mine === its) return;
  throw new ConfigError(
    `run.parity needs runs after the same step, but this run has taken ${counted(mine, 'step')} and the other run ${its}; make both runs again, ` +
      'or save one and load it into the other: run.save(path), other.load(path)',
  );
}

function numReplicas({ parallel }: RunParts['history']['phase']['config'], world: number): number {
  return world / (parallel.tp * parallel.pp * parallel.cp);
}

function said(value: unknown): string {
  return inspect(value, { breakLength: Number.POSITIVE_INFINITY, depth: 2 });
}

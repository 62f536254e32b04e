import {
  atLeast0Schema,
  countSchema,
  flagSchema,
  parseOptions,
  pathSchema,
  type ShapeOf,
} from '../../config';
import { ConfigError } from '../../core';
import type { EvaluatedStep } from '../../launch';
import type { RunParts } from './calls';
import { OutputFolder } from './output-folder';

/** Options for the work between the steps of `run.step` and `run.steps`, with the names of transformers' TrainingArguments. */
export interface LoopOptions {
  /** Evaluates after each step whose number is a multiple of this number. */
  readonly evalSteps?: number | undefined;
  /** Saves after each step whose number is a multiple of this number, into `outputDir`/checkpoint-<step>. */
  readonly saveSteps?: number | undefined;
  readonly outputDir?: string | undefined;
  /** Number of checkpoints that remain in `outputDir`: the newest ones, and always the one with the least validation loss. */
  readonly saveTotalLimit?: number | undefined;
  /** When the steps have ended, loads the parameters with the least validation loss; not after an interrupt or a `break`. */
  readonly loadBestModelAtEnd?: boolean | undefined;
  /** Ends the training after this number of consecutive evaluations that found no new least loss. */
  readonly earlyStoppingPatience?: number | undefined;
  /** A loss counts as a new least loss only if it is below the old least loss by more than this number. Default 0. */
  readonly earlyStoppingThreshold?: number | undefined;
  /** Whether the curve of the loss stays below the cell when the steps have ended; otherwise one line stays. Default false. */
  readonly curve?: boolean | undefined;
  /**
   * Whether the peak of memory is drawn below the loss while steps run, at most five times a second; both curves then stay below the
   * cell. Default false.
   */
  readonly live?: boolean | undefined;
}

const OPTIONS = {
  evalSteps: countSchema,
  saveSteps: countSchema,
  outputDir: pathSchema,
  saveTotalLimit: countSchema,
  loadBestModelAtEnd: flagSchema,
  earlyStoppingPatience: countSchema,
  earlyStoppingThreshold: atLeast0Schema,
  curve: flagSchema,
  live: flagSchema,
} satisfies ShapeOf<LoopOptions>;

/** Options that have no effect if another option is missing. */
const NEEDS: readonly (readonly [keyof LoopOptions, keyof LoopOptions])[] = [
  ['saveSteps', 'outputDir'],
  ['outputDir', 'saveSteps'],
  ['saveTotalLimit', 'saveSteps'],
  ['loadBestModelAtEnd', 'evalSteps'],
  ['loadBestModelAtEnd', 'saveSteps'],
  ['earlyStoppingPatience', 'evalSteps'],
  ['earlyStoppingThreshold', 'earlyStoppingPatience'],
];

/**
 * Checks the options of a call; `what` is its name. Returns warnings about options that have no effect in the call's steps.
 * Throws: CONFIG for values that are not possible, and for an option that needs another option.
 */
export function checkLoopOptions(
  what: string,
  given: LoopOptions,
  numSteps: number,
  { lastStep, data }: Pick<RunParts, 'data'> & { readonly lastStep: number },
): string[] {
  const options: LoopOptions = parseOptions(`${what}(n, { … })`, given, OPTIONS);
  const { evalSteps, saveSteps, outputDir, loadBestModelAtEnd } = options;
  for (const [name, needed] of NEEDS) {
    const isOff = options[name] === undefined || options[name] === false;
    if (!isOff && options[needed] === undefined)
      throw new ConfigError(`${what}: ${name} has no effect without ${needed}; give both`);
  }
  if (loadBestModelAtEnd === true && (saveSteps ?? 0) % (evalSteps ?? 1) !== 0) {
    throw new ConfigError(
      `${what}: with loadBestModelAtEnd, saveSteps must be a multiple of evalSteps, but they are ${saveSteps} and ${evalSteps}: a ` +
        'checkpoint without a validation loss cannot be the best one',
    );
  }
  if (evalSteps !== undefined && data?.validation == null) {
    throw new ConfigError(
      `${what}: evalSteps needs rows that are never trained on, and this run has none; give them in the config, as data: { path: ` +
        "'./text.txt', validation: 0.1 }",
    );
  }
  const first = lastStep + 1;
  const last = lastStep + numSteps;
  const unused = (['evalSteps', 'saveSteps'] as const).flatMap((name) => {
    const every = options[name];
    if (every === undefined || Math.ceil(first / every) * every <= last) return [];
    return [
      `${what}: ${name} ${every} has no effect, because no step from ${first} to ${last} is a multiple of ${every}`,
    ];
  });
  return [...unused, ...laterCheckpoints(what, outputDir, lastStep)];
}

/**
 * Warns of checkpoints of later steps. Another training has left them; or this training saved them before it loaded an
 * earlier checkpoint.
 */
function laterCheckpoints(what: string, outputDir: string | undefined, lastStep: number): string[] {
  if (outputDir === undefined) return [];
  const step = new OutputFolder(outputDir).steps().at(-1) ?? 0;
  if (step <= lastStep) return [];
  return [
    `${what}: ${outputDir} has checkpoint-${step}, but this run is at step ${lastStep}; a save after step ${step} will replace ` +
      `that checkpoint, and saveTotalLimit does not delete checkpoints of later steps. To continue from step ${step}: ` +
      `await run.load('${outputDir}/checkpoint-${step}')`,
  ];
}

/**
 * Whether early stopping ends the training after the newest evaluation. All evaluations of the run count, also those of earlier
 * calls, so a resumed run stops after the same step. After a stop, counting begins again.
 * Source: transformers' EarlyStoppingCallback.
 */
export function isOutOfPatience(
  evaluations: readonly EvaluatedStep[],
  { earlyStoppingPatience: patience, earlyStoppingThreshold = 0 }: LoopOptions,
): boolean {
  if (patience === undefined) return false;
  let [best, count] = [Number.POSITIVE_INFINITY, 0];
  for (const { loss } of evaluations) {
    count = best - loss > earlyStoppingThreshold ? 0 : count + 1;
    best = Math.min(best, Number.isNaN(loss) ? best : loss);
  }
  return count > 0 && count % patience === 0;
}

import { inspect } from 'node:util';
import { SETTING_ROWS, settingAt } from '../../config';
import { ConfigError } from '../../core';
import { counted } from '../../figures';
import type { RunParts } from './calls';

/** Settings that change how a step is computed, but not its result; compared runs may differ in these settings. */
const HOW = [
  'parallel',
  'mixedPrecision',
  'gradScaler',
  'offload',
  'activationCheckpointing',
  'optimizer.fused',
];

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
export function requireSameTraining(one: Compared, other: Compared): void {
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

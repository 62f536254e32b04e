import { ConfigError, ShardlabError } from '../../core';
import type { CopyRestored, Fleet } from '../../launch';
import { type BuildParts, buildOnRanks } from './build';
import { loadRun } from './checkpoints';
import type { RunLoop } from './run-loop';

/** The parts of a run by which a job heals it. */
export interface HealedParts extends BuildParts {
  readonly loop: Pick<RunLoop<unknown>, 'takeToHeal' | 'logs'>;
}

/** How a run continues after its ranks were started again. */
export interface HealedRun {
  /** The number of the run in its job, from 1. */
  readonly run: number;
  /** The run continues with the step after this one. */
  readonly step: number;
  /** Where the state came from: the ranks' copies in memory, a checkpoint, or the run's first values. */
  readonly source: 'copies' | 'checkpoint' | 'start';
  /** The checkpoint's folder. */
  readonly path?: string | undefined;
  /** How many steps the run had done after `step`; they are done again. */
  readonly numRepeated: number;
}

/** A state from which a run can continue. */
type Point = Pick<HealedRun, 'step' | 'source' | 'path'>;

/**
 * Builds a run again on its ranks, and gives it its newest state. Throws: CONFIG if there is none and `fromStart` is false,
 * errors of ranks; then the run waits for another job.heal().
 */
export async function healRun(parts: HealedParts, fromStart: boolean): Promise<HealedRun> {
  const { number: run, calls, history, loop } = parts;
  return await loop.takeToHeal(async () => {
    const before = history.lastStep;
    calls.regain();
    try {
      const point =
        (await newestPoint(parts)) ?? (fromStart ? ({ step: 0, source: 'start' } as const) : undefined);
      if (point === undefined) throw noPoint(run);
      const { world } = history.phase;
      await calls.free(world, point.source === 'copies');
      await buildOnRanks(parts);
      await restore(parts, point);
      loop.logs.resume(point.step);
      return { run, ...point, numRepeated: Math.max(0, before - point.step) };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      calls.lose(`run ${run} was not healed; await job.heal() to try again. It ended with: ${why}`);
      throw error;
    }
  });
}

/** Returns the newest state of a run: that of the copies, or that of the checkpoint if it is newer. */
async function newestPoint({
  number: run,
  calls,
  history,
  copySteps,
}: HealedParts): Promise<Point | undefined> {
  const saved = calls.newestCheckpoint;
  const stored =
    saved === undefined || saved.step === null
      ? undefined
      : ({ step: saved.step, source: 'checkpoint', path: saved.path } as const);
  if (copySteps === undefined) return stored;
  const held = await calls.on<readonly number[]>(history.phase.world, { kind: 'copies', run });
  const step = newestCommonCopy(held);
  return step === undefined || step < (stored?.step ?? 0) ? stored : { step, source: 'copies' };
}

async function restore(parts: HealedParts, { step, source, path }: Point): Promise<void> {
  const { number: run, calls, history } = parts;
  if (path !== undefined) await loadRun(parts, path, {});
  else if (source === 'start') history.resume(0);
  else {
    const ranks = await calls.on<CopyRestored>(history.phase.world, { kind: 'restore', run, step });
    keepUnreported(parts, step, ranks);
    const evaluations = history.evaluations.filter((evaluation) => evaluation.step <= step);
    history.resume(step, evaluations, ranks[0]?.numUpdates);
  }
}

/** Stores the results of steps up to `step` that the ended rank had not reported; their records are lost. */
function keepUnreported({ history, loop }: HealedParts, step: number, ranks: readonly CopyRestored[]): void {
  for (let next = history.lastStep + 1; next <= step; next++) {
    const steps = ranks.flatMap(({ results }) =>
      results.flatMap((result) => (result.step === next ? { result, record: null } : [])),
    );
    if (steps.length > 0) loop.logs.step(history.keep(steps), steps);
  }
}

/**
 * Returns the newest step of which the ranks together have all values: each rank has its own copy, or the next rank has it.
 * `held` has the steps of each rank's copies. Undefined if there is no such step.
 */
function newestCommonCopy(held: readonly (readonly number[])[]): number | undefined {
  const isWhole = (step: number): boolean =>
    held.every((own, rank) => own.includes(step) || held[(rank + 1) % held.length]?.includes(step) === true);
  const steps = held.flat().filter(isWhole);
  return steps.length === 0 ? undefined : Math.max(...steps);
}

/** Throws: CONFIG if ranks cannot copy their states to each other. */
export function requireCopies(copySteps: number | undefined, world: number, engine: Fleet['engine']): void {
  if (copySteps === undefined) return;
  if (world === 1)
    throw new ConfigError(
      'inMemoryCheckpointSteps copies the state of each rank to the next rank, and this run has one rank; train on more ranks, or ' +
        'await run.save(folder)',
    );
  if (engine === 'torch')
    throw new ConfigError(
      "inMemoryCheckpointSteps needs ranks of this library's engine, because job.heal() cannot start ranks of PyTorch again; await " +
        'run.save(folder)',
    );
}

function noPoint(run: number): ShardlabError {
  return new ShardlabError(
    'CONFIG',
    `run ${run} has no copy of its state and no checkpoint, so the shards of the ended ranks are lost; ` +
      'await job.heal({ fromStart: true }) to begin it again at step 1, or run.dispose(). Next time, job.train(config, ' +
      '{ inMemoryCheckpointSteps: 10 }) makes copies, or await run.save(folder)',
    { details: { run } },
  );
}

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../core';
import { saveRun } from './checkpoints';
import { type HealedRun, healRun } from './heal-run';
import type { RunPlace } from './history';
import { planReshard } from './reshard';
import type { Run } from './run';

/** A run that will continue with another number of ranks. */
export interface Shrinking {
  readonly run: Run;
  readonly to: RunPlace;
}

/**
 * Plans how all runs of a job continue with its first `ranks` ranks, of which some have ended. Throws: CONFIG for a number of ranks
 * that the job cannot have, and naming the first run whose layout does not fit it.
 */
export function planFewer(
  ranks: number,
  runs: ReadonlySet<Run>,
  { numRanks, dead }: { readonly numRanks: number; readonly dead: readonly number[] },
): Shrinking[] {
  const most = numRanks - Math.max(1, dead.length);
  if (dead.length === 0) {
    throw new ConfigError(
      `job.heal({ ranks: ${ranks} }): all ${numRanks} ranks run; await run.reshard({ world: ${ranks} }) moves a run to fewer ranks`,
    );
  }
  if (ranks > most) {
    throw new ConfigError(
      `job.heal({ ranks: ${ranks} }): ${most} of ${numRanks} ranks run; give a number from 1 to ${most}, or await job.heal() to ` +
        'start the others again',
    );
  }
  return [...runs].map((run) => ({ run, to: placeOn(ranks, run, numRanks) }));
}

/** Returns the place of a run on the first `ranks` ranks. */
function placeOn(ranks: number, run: Run, numRanks: number): RunPlace {
  const { config, world } = run;
  if (world <= ranks) return { config, world };
  requireFit(ranks, run);
  return planReshard({ config, world }, { world: ranks }, numRanks);
}

/** Throws: CONFIG if the degrees of a run's parallelism do not fit a number of ranks. */
function requireFit(ranks: number, { config, healing, world }: Run): void {
  const { tp, pp, cp, ep } = config.parallel;
  const fits = (size: number): boolean => size % (tp * pp * cp) === 0 && (size / (tp * pp)) % ep === 0;
  if (fits(ranks)) return;
  const others = Array.from({ length: ranks }, (_, i) => ranks - i).filter(fits);
  const fewer = others.length === 0 ? '' : `job.heal({ ranks: ${others[0]} }) fits, and so does `;
  throw new ConfigError(
    `job.heal({ ranks: ${ranks} }): run ${healing.number} divides its model by tp ${tp}, pp ${pp}, cp ${cp} and ep ${ep}, which does ` +
      `not fit ${ranks} ranks; ${fewer}job.heal() with all ${world}`,
    { ranks, tp, pp, cp, ep },
  );
}

/**
 * Continues runs with fewer ranks: saves their states into the job's folder, lets `restart` start the ranks, and loads the states
 * there. If `restart` fails, job.heal() can be called again. Throws: errors of ranks, and of `restart`.
 */
export async function goOnWithFewer(
  shrinking: readonly Shrinking[],
  folder: string,
  restart: () => Promise<void>,
): Promise<HealedRun[]> {
  const saved = [];
  for (const { run, to } of shrinking) {
    const { healing } = run;
    const { number, calls, history, loop } = healing;
    const path = join(folder, `heal-run-${number}`);
    const before = calls.newestCheckpoint;
    await loop.takeToHeal(() => saveRun(healing, path, {}, { isTemporary: true }));
    saved.push({ run, to, path, before, step: history.lastStep });
  }
  for (const { run, path, step } of saved) {
    run.healing.calls.saved({ path, step });
    run.healing.calls.lose(
      `run ${run.healing.number} waits for fewer ranks; await job.heal() to continue it`,
    );
  }
  await restart();
  const healed: HealedRun[] = [];
  for (const { run, to, path, before, step } of saved) {
    const { healing } = run;
    healing.history.begin(to);
    const { path: _, ...report } = await healRun(healing, false);
    healing.calls.saved(before);
    rmSync(path, { recursive: true, force: true });
    healed.push({ ...report, step });
  }
  return healed;
}

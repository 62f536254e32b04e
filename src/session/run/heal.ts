import { Progress } from '../../cell';
import { countSchema, flagSchema, parseOptions, type ShapeOf } from '../../config';
import {
  ConfigError,
  formatSeconds,
  now,
  rankNames,
  type Seconds,
  type Shown,
  shownAsText,
  withShown,
} from '../../core';
import { firstRanks, type RankGroups, type RankNames, type Supervisor, warnOnStderr } from '../../launch';
import { goOnWithFewer, planFewer } from './heal-fewer';
import { type HealedRun, healRun } from './heal-run';
import type { Run } from './run';

/** Options of job.heal. */
export interface HealOptions {
  /** If true, a run without a copy of its state and without a checkpoint begins again at its first step. Default false. */
  readonly fromStart?: boolean | undefined;
  /**
   * The job continues with this number of ranks, fewer than before: as torchrun does, it starts all of them anew, with the numbers 0 to
   * `ranks` - 1, and reshards the runs. `batch` is per rank, so fewer ranks process fewer sequences per step. Default: all ranks.
   */
  readonly ranks?: number | undefined;
}

const HEAL = {
  fromStart: flagSchema.default(false),
  ranks: countSchema,
} satisfies ShapeOf<HealOptions>;

/** What job.heal has done. Shown in a notebook as text. */
export interface HealReport extends Shown {
  /** The ranks that were started again. */
  readonly started: readonly number[];
  /** Variables of cells that the ended processes had: cells must declare them again on `started`. */
  readonly lostVariables: readonly string[];
  /** How the runs continue that had parts on the ended ranks. */
  readonly runs: readonly HealedRun[];
  readonly seconds: Seconds;
}

/** The parts of a job that its healing needs. */
export interface HealHome {
  readonly supervisor: Supervisor;
  readonly groups: RankGroups;
  readonly runs: ReadonlySet<Run>;
  readonly numRanks: () => number;
  /** The job's folder. */
  readonly folder: string;
}

/** Starts ended ranks again and continues the runs; `Job.heal` says how. */
export async function healJob(home: HealHome, options: HealOptions): Promise<HealReport> {
  const { fromStart, ranks } = parseOptions('job.heal({ … })', options, HEAL);
  const start = now();
  const { numInterrupts } = home.supervisor;
  const dead = await home.supervisor.deadRanks();
  const numBefore = home.numRanks();
  const shrinking =
    ranks === undefined ? undefined : planFewer(ranks, home.runs, { numRanks: numBefore, dead });
  loseRuns(home.runs, dead);
  const names = dead.length === 0 ? [] : await startAgain(home, dead, numBefore, numInterrupts);
  let runs = await healRuns(
    home.runs,
    fromStart,
    textsOfStart({ started: dead, lost: missingOn(dead, names) }),
  );
  const started = ranks === undefined ? dead : firstRanks(ranks);
  if (ranks !== undefined && shrinking !== undefined) {
    const before = new Map(runs.map((run) => [run.run, run]));
    const goneOn = await goOnWithFewer(shrinking, home.folder, async () => {
      await startAgain(home, started, ranks, numInterrupts);
    });
    runs = goneOn.map((run) => ({ ...run, ...before.get(run.run) }));
  }
  const lostVariables =
    shrinking === undefined ? missingOn(dead, names) : [...new Set(names.flat())].toSorted();
  const facts = { started, lostVariables, runs, seconds: now() - start };
  return withShown(facts, shownAsText(textOf(facts, home.numRanks(), numBefore)));
}

/**
 * Heals the runs that wait for it. If some cannot be healed, the others are; then stderr says what was `done` before, because the
 * user gets the error of the first run that failed.
 */
async function healRuns(
  runs: ReadonlySet<Run>,
  fromStart: boolean,
  done: readonly string[],
): Promise<HealedRun[]> {
  const healed: HealedRun[] = [];
  const errors: unknown[] = [];
  for (const { healing } of runs) {
    if (!healing.calls.isLost) continue;
    try {
      healed.push(await healRun(healing, fromStart));
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === 0) return healed;
  for (const text of [...done, ...healed.map(textOfRun)]) warnOnStderr(text);
  throw errors[0];
}

/** Starts ranks, after which the job has `world` ranks; returns the names that cells have declared, by rank. */
async function startAgain(
  { supervisor, groups, numRanks }: HealHome,
  ranks: readonly number[],
  world: number,
  since: number,
): Promise<RankNames[]> {
  const line = new Progress(`starting ${rankNames(ranks)} again`, 'ranks');
  try {
    return await supervisor.heal({ ranks, world, progress: line.show }, since);
  } finally {
    groups.forget(numRanks());
    line.end();
  }
}

/** Returns the names that cells have declared on some rank, but not on these. */
function missingOn(ranks: readonly number[], names: readonly RankNames[]): string[] {
  const there = new Set(ranks.flatMap((rank) => names[rank] ?? []));
  return [...new Set(names.flat())].filter((name) => !there.has(name)).toSorted();
}

/** Makes the runs wait that have a part on one of these ranks. */
function loseRuns(runs: ReadonlySet<Run>, dead: readonly number[]): void {
  for (const { world, healing } of runs) {
    const lost = dead.filter((rank) => rank < world);
    if (lost.length === 0 || healing.calls.isLost) continue;
    healing.calls.lose(
      `run ${healing.number} lost its parts on ${rankNames(lost)}, whose processes ended; await job.heal() to continue it`,
    );
  }
}

/** The most names of lost variables in a text. */
const MOST_NAMES = 12;

function textOf(
  { started, lostVariables, runs, seconds }: Omit<HealReport, keyof Shown>,
  numRanks: number,
  numBefore: number,
): string {
  if (started.length === 0 && runs.length === 0) {
    return numRanks === 1
      ? 'the rank runs: there is nothing to heal'
      : `all ${numRanks} ranks run: there is nothing to heal`;
  }
  const isSmaller = numRanks < numBefore;
  const lines = isSmaller
    ? [
        `The job continues with ${numRanks} of ${numBefore} ranks, which were started anew (${formatSeconds(seconds)}).`,
        ...textsOfLost(lostVariables, 'in ranks'),
      ]
    : textsOfStart({ started, lost: lostVariables, seconds });
  return [...lines, ...runs.map(textOfRun)].join('\n');
}

/** Says which ranks were started again, and what they have lost. */
function textsOfStart({
  started,
  lost,
  seconds,
}: {
  readonly started: readonly number[];
  readonly lost: readonly string[];
  readonly seconds?: Seconds;
}): string[] {
  if (started.length === 0) return [];
  const after = seconds === undefined ? '' : ` (${formatSeconds(seconds)})`;
  return [
    `${rankNames(started)} ${started.length === 1 ? 'runs' : 'run'} again${after}.`,
    ...textsOfLost(lost, 'there'),
  ];
}

function textsOfLost(names: readonly string[], where: string): string[] {
  if (names.length === 0) return [];
  const shown = names.slice(0, MOST_NAMES).join(', ');
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : '';
  return [
    `The variables of cells ${where} are lost: ${shown}${more}; run the cells that declare them again.`,
  ];
}

function textOfRun({ run, step, source, path, numRepeated }: HealedRun): string {
  const from = {
    copies: 'the copies in memory',
    checkpoint: `the checkpoint ${path}`,
    start: 'its first values',
  }[source];
  const repeated =
    numRepeated === 0
      ? ''
      : `; ${numRepeated === 1 ? `step ${step + 1} is` : `steps ${step + 1} to ${step + numRepeated} are`} repeated`;
  const where = step === 0 ? 'begins again' : `continues after step ${step}`;
  return `Run ${run} ${where}, from ${from}${repeated}.`;
}

/** Signals that end a process which does not handle them. */
const SIGNALS = [
  'SIGKILL',
  'SIGTERM',
  'SIGINT',
  'SIGHUP',
  'SIGQUIT',
  'SIGABRT',
  'SIGBUS',
  'SIGSEGV',
] as const;

/** A signal with which job.kill ends a rank. */
export type KillSignal = (typeof SIGNALS)[number];

/** Throws: CONFIG for a value that is not one of `SIGNALS`. */
export function requireKillSignal(signal: unknown): asserts signal is KillSignal {
  if (SIGNALS.some((known) => known === signal)) return;
  throw new ConfigError(`job.kill(rank, signal) takes one of ${SIGNALS.join(', ')}, not ${String(signal)}`);
}

import type { ShowProgress } from '../../cell/progress';
import { parseTrainConfig, type TrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import type { Bytes, Seconds } from '../../core/units';
import type { BenchRow } from '../../dist/bench-collectives';
import { communication } from '../../ledger/communication';
import type { StepRecord } from '../../ledger/record';
import { predictHere } from '../../plan/dry-run/here-costs';
import { type HereMeasurements, measuredKernels, median } from '../../plan/dry-run/here-measurements';
import type { TimedStep } from '../../train/kernel-profile';
import { type LinkNumbers, linkOf } from '../../transport/link';
import { type LoadProbe, openLoadProbe } from '../launch/load-probe';
import { MAX_RANKS } from '../launch/options';
import type { Job } from '../run/job';
import { launch } from '../run/launch';
import {
  configOfCase,
  layoutCases,
  nameOfCase,
  OWN_MODELS,
  type OwnRunCase,
  ownRunCases,
  WHOLE,
} from './own-run-cases';

export interface OwnRunsOptions {
  /** Numbers of ranks of the predicted runs. Default 1, 2 and 4. */
  readonly worlds?: readonly number[];
  /** Links of the predicted runs; null: as fast as this machine's ranks exchange. Default: 2 Gbit/s with 50 µs, and null. */
  readonly links?: readonly (LinkNumbers | null)[];
  /** Whether runs with divided models, on shared memory, are predicted too. Default true. */
  readonly modelParallel?: boolean;
  /**
   * Rounds of three steps per run. The measured time is the median of the half with the least load of other programs. Default
   * 5.
   */
  readonly rounds?: number;
}

/** A run that was predicted and done. */
export interface OwnRun extends OwnRunCase {
  readonly name: string;
  readonly predictedSeconds: Seconds;
  /** Median of the quieter half of the steps. */
  readonly measuredSeconds: Seconds;
  /** predicted ÷ measured − 1. */
  readonly error: number;
  readonly predictedBytes: Bytes;
  /** The most bytes on a rank's device in the run's last step. */
  readonly measuredBytes: Bytes;
  /** Bytes that all ranks received in a step. */
  readonly predictedReceived: Bytes;
  readonly measuredReceived: Bytes;
  /** Whether every rank made the predicted calls, with the predicted bytes. */
  readonly isSameTraffic: boolean;
  /** Number of other programs' threads that wanted a core during the steps; the prediction uses this number. */
  readonly others: number;
}

export interface OwnRuns {
  /** The measurements behind the predictions. */
  readonly measured: HereMeasurements;
  readonly runs: readonly OwnRun[];
}

/** Number of ranks that measure kernels and collectives; collectives need two. */
const CALIBRATED_WORLD = 2;
/** Number of warm-up steps, in which the code is compiled. */
const WARM_UP = 4;
const PROFILED_STEPS = 9;
/** An operating system prefers threads that have just slept; several steps in a row average this out. */
const STEPS_PER_ROUND = 3;
const COLLECTIVE_SIZES: readonly Bytes[] = [4096, 65_536, 1 << 20, 16 << 20];
const DEFAULT_LINKS = [{ gbit: 2, latencyUs: 50 }, null] as const;

/**
 * Measures kernels and collectives in one job of two ranks, predicts runs of other worlds, strategies and links from
 * these measurements alone, does the runs, and compares. `progress` gets the number of runs. See [Note: predictions of this machine's own runs]. Takes minutes.
 */
export async function ownRuns(options: OwnRunsOptions, progress: ShowProgress): Promise<OwnRuns> {
  const { worlds = [1, 2, 4], links = DEFAULT_LINKS, rounds = 5, modelParallel = true } = options;
  if (worlds.length === 0 || links.length === 0 || !(Number.isInteger(rounds) && rounds >= 1)) {
    throw new ConfigError(
      `predictions: ${worlds.length} worlds, ${links.length} links, ${rounds} rounds; give at least one of each`,
    );
  }
  const probe = openLoadProbe();
  try {
    const cases = [...ownRunCases(worlds, links), ...(modelParallel ? layoutCases() : [])];
    progress(0, cases.length, `measuring kernels and collectives on ${CALIBRATED_WORLD} ranks`);
    const measured = await measureHere(probe);
    const runs: OwnRun[] = [];
    const begins = (name: string): void => progress(runs.length, cases.length, name);
    for (const places of jobsOf(cases)) await runJob(places, { measured, probe, rounds, begins, runs });
    return { measured, runs };
  } finally {
    await probe.close();
  }
}

/** Groups the cases by job: each job runs the cases of one world and one link. */
function jobsOf(cases: readonly OwnRunCase[]): readonly (readonly OwnRunCase[])[] {
  const jobs = new Map<string, OwnRunCase[]>();
  for (const one of cases) {
    const key = JSON.stringify([one.world, one.link]);
    jobs.set(key, [...(jobs.get(key) ?? []), one]);
  }
  return [...jobs.values()];
}

async function measureHere(probe: LoadProbe): Promise<HereMeasurements> {
  const job = await launch({ ranks: jobSize(CALIBRATED_WORLD, probe) });
  try {
    const configs = OWN_MODELS.map((model) =>
      parseTrainConfig(
        configOfCase({ model, layout: null, ...WHOLE, recompute: false, world: 1, link: null }),
      ),
    );
    const kernels = [];
    for (const config of configs) kernels.push(...measuredKernels(config, await profile(job, config)));
    const loads = [await probe.others()];
    const [collectives = []] = await job.on('all').measure<BenchRow[]>({
      what: 'collectives',
      numRanks: CALIBRATED_WORLD,
      sizes: COLLECTIVE_SIZES,
    });
    loads.push(await probe.others());
    const { cores } = probe;
    return { world: CALIBRATED_WORLD, cores, others: median(loads), kernels, collectives };
  } finally {
    await job.shutdown();
  }
}

/**
 * Returns a job's number of ranks. A job's ranks divide the cores among their matmuls. With at least one rank per core,
 * every rank uses one thread, whatever number of ranks trains.
 */
function jobSize(world: number, { cores }: LoadProbe): number {
  return Math.max(world, Math.min(cores, MAX_RANKS));
}

async function profile(job: Job, config: TrainConfig): Promise<readonly TimedStep[]> {
  const profile = { config, warmUp: WARM_UP, rounds: PROFILED_STEPS };
  const [steps = []] = await job
    .on('all')
    .measure<TimedStep[]>({ what: 'kernels', numRanks: CALIBRATED_WORLD, profile });
  return steps;
}

interface Bench extends Required<Pick<OwnRunsOptions, 'rounds'>> {
  readonly begins: (name: string) => void;
  /** Gets the finished runs. */
  readonly runs: OwnRun[];
  readonly measured: HereMeasurements;
  readonly probe: LoadProbe;
}

async function runJob(cases: readonly OwnRunCase[], bench: Bench): Promise<void> {
  const [{ world, link } = { world: 1, link: null }] = cases;
  const job = await launch({ ranks: jobSize(world, bench.probe), ...(link === null ? {} : { link }) });
  try {
    for (const one of cases) {
      bench.begins(nameOfCase(one));
      bench.runs.push(await runCase(job, one, bench));
    }
  } finally {
    await job.shutdown();
  }
}

/** Runs and predicts a case. The load is measured around every few steps, so that the prediction uses the load of the run. */
async function runCase(job: Job, one: OwnRunCase, { measured, probe, rounds }: Bench): Promise<OwnRun> {
  const config = configOfCase(one);
  const run = await job.train(config, { ranks: one.world });
  try {
    await run.step(WARM_UP);
    const loads = [await probe.others()];
    for (let round = 0; round < rounds; round++) {
      await run.step(STEPS_PER_ROUND);
      loads.push(await probe.others());
    }
    const steps = run.results.slice(WARM_UP).map(({ seconds }, i) => {
      const round = Math.floor(i / STEPS_PER_ROUND);
      return { seconds, others: ((loads[round] ?? 0) + (loads[round + 1] ?? 0)) / 2 };
    });
    const { seconds: measuredSeconds, others } = quietHalf(steps);
    const link = one.link === null ? undefined : linkOf(one.link);
    const predicted = predictHere(config, measured, { world: one.world, link, others });
    const predictedSeconds = predicted.stepSeconds;
    return {
      ...one,
      name: nameOfCase(one),
      predictedSeconds,
      measuredSeconds,
      error: predictedSeconds / measuredSeconds - 1,
      ...bytesOf(predicted.lastStep, run.records.newest()),
      others,
    };
  } finally {
    await run.dispose();
  }
}

/** Compares the bytes of a step on all ranks. */
function bytesOf(predicted: readonly StepRecord[], measured: readonly StepRecord[]) {
  const peak = (records: readonly StepRecord[]): Bytes =>
    Math.max(...records.map(({ memory }) => memory.peakBytes));
  const traffic = (records: readonly StepRecord[]): string[] =>
    records.map((record) => `${record.rank} ${JSON.stringify(callsOf(record))}`).sort();
  const received = (records: readonly StepRecord[]): Bytes =>
    records.flatMap(callsOf).reduce((sum, { wireBytes }) => sum + wireBytes, 0);
  return {
    predictedBytes: peak(predicted),
    measuredBytes: peak(measured),
    predictedReceived: received(predicted),
    measuredReceived: received(measured),
    isSameTraffic: traffic(predicted).join() === traffic(measured).join(),
  };
}

/** The numbers and bytes of a rank's calls. Names of groups differ between runs of one job. */
function callsOf(record: StepRecord) {
  return communication([record])
    .map(({ op, cause, count, wireBytes }) => ({ op, cause, count, wireBytes }))
    .sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
}

interface LoadedStep {
  readonly seconds: Seconds;
  readonly others: number;
}

/** Returns the half of the steps with the least load of other programs around them. */
function quietHalf(steps: readonly LoadedStep[]): LoadedStep {
  const quiet = steps.toSorted((a, b) => a.others - b.others).slice(0, Math.ceil(steps.length / 2));
  return {
    seconds: median(quiet.map(({ seconds }) => seconds)),
    others: median(quiet.map(({ others }) => others)),
  };
}

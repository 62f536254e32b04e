import { z } from 'zod';
import { type ProgressPlace, type ShowProgress, withProgress } from '../../cell';
import {
  countSchema,
  fields,
  flagSchema,
  listOf,
  ofKind,
  orNull,
  parseOptions,
  parseTrainConfig,
  type ShapeOf,
  type StrategyName,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config';
import {
  type Bytes,
  ConfigError,
  formatBytes,
  formatSeconds,
  installAdvice,
  median,
  type Seconds,
  type Shown,
  shownAsText,
  withShown,
} from '../../core';
import {
  type Column,
  createTable,
  type Figure,
  planFigures,
  sessionGuesses,
  type Table,
} from '../../figures';
import { type LoadProbe, MAX_RANKS, openLoadProbe } from '../../launch';
import { communication, type StepRecord } from '../../ledger';
import {
  accuracyOf,
  type HereMeasurements,
  measuredKernels,
  overheadOfCalls,
  predictHere,
} from '../../planner';
import type { TimedStep } from '../../training';
import { type BenchRow, type LinkNumbers, linkOf } from '../../wire';
import type { Job } from '../run/job';
import { launch } from '../run/launch';
import type { Run } from '../run/run';

/** This machine's own runs, compared with their predictions. Shown in a notebook as a table. */
export interface Predictions extends OwnRuns, Shown {
  /** Mean absolute value of the runs' `error`. */
  readonly meanError: number;
  readonly worstError: number;
  /** The mean error of data-parallel runs, and the mean error of runs with divided models; 0 if there are no such runs. */
  readonly dataParallelError: number;
  readonly modelParallelError: number;
  /** Whether the peak bytes and the collectives of every run were exactly as predicted. */
  readonly isExactInBytes: boolean;
  readonly table: Table;
  figure(): Figure;
}

const COLUMNS: readonly Column[] = [
  { key: 'run' },
  { key: 'predicted', format: (value) => formatSeconds(Number(value)) },
  { key: 'measured', format: (value) => formatSeconds(Number(value)) },
  { key: 'error', format: (value) => percent(Number(value)) },
  { key: 'predictedBytes', title: 'peak predicted', format: (value) => formatBytes(Number(value)) },
  { key: 'measuredBytes', title: 'peak measured', format: (value) => formatBytes(Number(value)) },
  { key: 'predictedReceived', title: 'received predicted', format: (value) => formatBytes(Number(value)) },
  { key: 'measuredReceived', title: 'received measured', format: (value) => formatBytes(Number(value)) },
  { key: 'others', title: "others' threads", format: (value) => Number(value).toFixed(1) },
];

/**
 * Predicts runs of this machine from measurements at one world size, executes the runs, and compares step times and bytes.
 * Takes minutes; predicted times are accurate only if other programs use few cores.
 * Throws: CONFIG for wrong options, and errors of `launch` and `train`.
 */
export async function predictions(
  options: OwnRunsOptions = {},
  place: ProgressPlace = {},
): Promise<Predictions> {
  return predictionsOf(
    await withProgress('predicting runs', 'runs', (show) => ownRuns(options, show), place),
  );
}

/** Summarises runs that were predicted and executed. */
export function predictionsOf({ measured, runs }: OwnRuns): Predictions {
  const pairs = runs.map(({ name, predictedSeconds, measuredSeconds }) => ({
    id: name,
    predicted: predictedSeconds,
    measured: measuredSeconds,
  }));
  const { mean, worst } = accuracyOf(pairs);
  const meanOf = (isDivided: boolean): number =>
    accuracyOf(pairs.filter((_, i) => (runs[i]?.layout !== null) === isDivided)).mean;
  const [dataParallelError, modelParallelError] = [meanOf(false), meanOf(true)];
  const rows = runs.map(({ layout: _, link: __, ...run }) => {
    return { ...run, run: run.name, predicted: run.predictedSeconds, measured: run.measuredSeconds };
  });
  const table = createTable(rows, { columns: COLUMNS });
  const isExactInBytes = runs.every((run) => run.predictedBytes === run.measuredBytes && run.isSameTraffic);
  const text = [
    table.toText(runs.length),
    `Step times: mean error ${percent(mean)}, worst ${percent(worst)}; data parallel ${percent(dataParallelError)}, ` +
      `divided models ${percent(modelParallelError)}. Peak and received bytes ${isExactInBytes ? 'are as predicted' : 'differ from the prediction'}. ` +
      `Calibrated on one job of ${measured.world} ranks.`,
  ].join('\n');
  const subtitle = `${runs.length} kinds of steps on this machine, predicted from one job of ${measured.world} ranks; band: ±8%.`;
  const figure = (): Figure => sessionGuesses().reveal(planFigures.accuracy(pairs, { subtitle }));
  const errors = { meanError: mean, worstError: worst, dataParallelError, modelParallelError };
  const fields = { measured, runs, ...errors, isExactInBytes, table, figure };
  return withShown(fields, shownAsText(text));
}

function percent(share: number): string {
  return `${share < 0 ? '−' : ''}${Math.abs(share * 100).toFixed(0)}%`;
}

export interface OwnRunsOptions {
  /** Numbers of ranks of the predicted runs. Default 1, 2 and 4. */
  readonly worlds?: readonly number[];
  /** Links of the predicted runs; null: the wire is not slowed down. Default: 2 Gbit/s with 50 µs, and null. */
  readonly links?: readonly (LinkNumbers | null)[];
  /** Whether runs with divided models, on shared memory, are predicted too. Default true. */
  readonly modelParallel?: boolean;
  /**
   * Rounds of three steps per run. The measured time is the median over the half of the steps that had the least
   * load by other programs. Default 5.
   */
  readonly rounds?: number;
}

/** A run that was predicted and executed. */
export interface OwnRun extends OwnRunCase {
  readonly name: string;
  readonly predictedSeconds: Seconds;
  /** Median time over the half of the steps that had the least load by other programs. */
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
  /** The measurements from which the runs were predicted. */
  readonly measured: HereMeasurements;
  readonly runs: readonly OwnRun[];
}

/** Number of ranks that measure kernels and collectives; collectives need two ranks. */
const CALIBRATED_WORLD = 2;
/**
 * Time of a run's warm-up. V8 compiles a rank's code during hundreds of steps, with threads of its own: a step of `tiny` on
 * two ranks takes 46 ms after 10 steps, and 33 ms after 300 steps.
 */
const WARM_UP_SECONDS: Seconds = 8;
/** Number of warm-up steps before the kernels are measured. */
const WARM_UP_STEPS = 60;
const PROFILED_STEPS = 9;
/** An operating system prefers threads that have just slept; a round has several steps to average this out. */
const STEPS_PER_ROUND = 3;
const COLLECTIVE_SIZES: readonly Bytes[] = [4096, 65_536, 1 << 20, 16 << 20];
const DEFAULT_LINKS = [{ gbit: 2, latencyUs: 50 }, null] as const;

const OPTIONS = {
  worlds: z.array(countSchema).readonly().default([1, 2, 4]),
  links: ofKind<NonNullable<OwnRunsOptions['links']>>(listOf(orNull(fields))).default(DEFAULT_LINKS),
  modelParallel: flagSchema.default(true),
  rounds: countSchema.default(5),
} satisfies ShapeOf<OwnRunsOptions>;

/**
 * Measures kernels and collectives in one job of two ranks, predicts runs of other worlds, strategies and links from these
 * measurements alone, executes the runs, and compares. `progress` gets the number of finished runs. Takes minutes. See
 * [Note: predictions of this machine's own runs].
 */
export async function ownRuns(options: OwnRunsOptions, progress: ShowProgress): Promise<OwnRuns> {
  const { worlds, links, rounds, modelParallel } = parseOptions('predictions({ … })', options, OPTIONS);
  if (worlds.length === 0 || links.length === 0) {
    throw new ConfigError(
      `predictions: ${worlds.length} worlds, ${links.length} links; give at least one of each`,
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
    if ((await job.status()).rows.some(({ blas }) => blas === 'none')) {
      throw new ConfigError(
        'predictions: the ranks found no BLAS library, but dry runs assume one. Install numpy, which contains OpenBLAS ' +
          `(${installAdvice().pythonPackages('numpy')}), or see shardlab doctor`,
      );
    }
    const kernels = [];
    for (const { config, world } of calibrated()) {
      kernels.push(...measuredKernels(config, await profile(job, config, world === 1), world));
    }
    const loads = [await probe.others()];
    const [collectives = []] = await job.on('all').measure<BenchRow[]>({
      kind: 'collectives',
      numRanks: CALIBRATED_WORLD,
      sizes: COLLECTIVE_SIZES,
    });
    loads.push(await probe.others());
    const { cores } = probe;
    const found = { world: CALIBRATED_WORLD, cores, others: median(loads), kernels, collectives };
    const steps = [];
    for (const config of withCalls()) steps.push({ config, seconds: await processorTime(job, config) });
    return { ...found, callOverhead: overheadOfCalls(steps, found) };
  } finally {
    await job.shutdown();
  }
}

/** Returns the configs of the calibration: whole batches and microbatches on each rank alone, and layouts of two ranks. */
function calibrated(): readonly { readonly config: TrainConfig; readonly world: number }[] {
  const whole = { layout: null, ...WHOLE, recompute: false, world: 1, link: null };
  const alone = OWN_MODELS.flatMap((model) =>
    [4, 1].map((batch) => ({ ...configOfCase({ model, ...whole }), batch })),
  );
  const together = layoutCases().filter(({ world }) => world === CALIBRATED_WORLD);
  return [
    ...alone.map((config) => ({ config: parseTrainConfig(config), world: 1 })),
    ...together.map((one) => ({ config: parseTrainConfig(configOfCase(one)), world: one.world })),
  ];
}

/** Returns configs whose steps show how much time the library's code around calls takes. */
function withCalls(): readonly TrainConfig[] {
  const one = { model: 'tiny', strategy: 'FULL_SHARD', recompute: false, world: 2, link: null } as const;
  const tp = layoutCases().filter(({ layout, model }) => layout?.name === 'tp 2' && model === 'tiny');
  return [{ ...one, layout: null }, ...tp].map((each) => parseTrainConfig(configOfCase(each)));
}

/** Returns the median processor time of a step of rank 0. */
async function processorTime(job: Job, config: TrainConfig): Promise<Seconds> {
  const profile = { config, warmUp: WARM_UP_STEPS, rounds: PROFILED_STEPS };
  const [steps = []] = await job
    .on('all')
    .measure<Seconds[]>({ kind: 'steps', numRanks: CALIBRATED_WORLD, profile });
  return median(steps);
}

/**
 * Returns the number of ranks to launch. A job's ranks divide the cores among their matmuls. With at least one rank per core,
 * every rank uses one thread, also if only some of the ranks train.
 */
function jobSize(world: number, { cores }: LoadProbe): number {
  return Math.max(world, Math.min(cores, MAX_RANKS));
}

async function profile(job: Job, config: TrainConfig, isAlone: boolean): Promise<readonly TimedStep[]> {
  const profile = { config, warmUp: WARM_UP_STEPS, rounds: PROFILED_STEPS };
  const [steps = []] = await job
    .on('all')
    .measure<TimedStep[]>({ kind: 'kernels', numRanks: CALIBRATED_WORLD, isAlone, profile });
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

/** Runs and predicts a case. The load is measured before and after each round, so that the prediction uses the run's load. */
async function runCase(job: Job, one: OwnRunCase, { measured, probe, rounds }: Bench): Promise<OwnRun> {
  const config = configOfCase(one);
  const run = await job.train(config, { ranks: one.world });
  try {
    const warmSteps = await warmUp(run);
    const loads = [await probe.others()];
    for (let round = 0; round < rounds; round++) {
      await run.step(STEPS_PER_ROUND);
      loads.push(await probe.others());
    }
    const steps = run.results.slice(warmSteps).map(({ seconds }, i) => {
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

/** Runs steps until V8 has compiled the run's code. Returns the number of steps. */
async function warmUp(run: Run): Promise<number> {
  for (let seconds = 0; seconds < WARM_UP_SECONDS; ) {
    const [first = 0, last = 0] = [run.results.length, run.results.length + STEPS_PER_ROUND];
    await run.step(STEPS_PER_ROUND);
    seconds += run.results.slice(first, last).reduce((sum, step) => sum + step.seconds, 0);
  }
  return run.results.length;
}

/** Returns the predicted and the measured bytes of a step on all ranks. */
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

/** Returns the counts and bytes of a rank's collectives. Names of groups are left out: they differ between a job's runs. */
function callsOf(record: StepRecord) {
  return communication([record])
    .map(({ op, cause, count, wireBytes }) => ({ op, cause, count, wireBytes }))
    .sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
}

interface LoadedStep {
  readonly seconds: Seconds;
  readonly others: number;
}

/** Returns the median over the half of the steps that had the least load by other programs. */
function quietHalf(steps: readonly LoadedStep[]): LoadedStep {
  const quiet = steps.toSorted((a, b) => a.others - b.others).slice(0, Math.ceil(steps.length / 2));
  return {
    seconds: median(quiet.map(({ seconds }) => seconds)),
    others: median(quiet.map(({ others }) => others)),
  };
}

/** A run that is predicted, and also executed for comparison. */
export interface OwnRunCase {
  readonly model: 'tiny' | 'bench';
  /** How the model is divided; null: the run is only data parallel. */
  readonly layout: OwnLayout | null;
  readonly strategy: StrategyName;
  readonly recompute: boolean;
  readonly world: number;
  /** null: the wire is not slowed down. */
  readonly link: LinkNumbers | null;
}

const OWN_MODELS = ['tiny', 'bench'] as const;
const STRATEGIES = ['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const satisfies readonly StrategyName[];

/** A way to divide a model over ranks. */
interface OwnLayout {
  readonly name: string;
  readonly world: number;
  readonly parallel: TrainConfigInput['parallel'];
}

const WHOLE = { strategy: 'NO_SHARD' } as const;
const LAYOUTS: readonly OwnLayout[] = [
  { name: 'tp 2', world: 2, parallel: { tp: 2, ...WHOLE } },
  { name: 'tp 2 sequence', world: 2, parallel: { tp: 2, sequenceParallel: true, ...WHOLE } },
  { name: 'pp 2', world: 2, parallel: { pp: 2, ...WHOLE } },
  { name: 'cp 2 ulysses', world: 2, parallel: { cp: 2, ...WHOLE } },
  { name: 'cp 2 ring', world: 2, parallel: { cp: 2, cpKind: 'ring', ...WHOLE } },
  { name: 'tp 2 x pp 2', world: 4, parallel: { tp: 2, pp: 2, ...WHOLE } },
  { name: 'tp 2 x dp 2 FULL_SHARD', world: 4, parallel: { tp: 2, strategy: 'FULL_SHARD' } },
  { name: 'pp 2 x dp 2 ZERO_2', world: 4, parallel: { pp: 2, strategy: 'ZERO_2' } },
  { name: 'tp 2 x pp 2 x dp 2', world: 8, parallel: { tp: 2, pp: 2, ...WHOLE } },
];

/**
 * Returns the cases of these worlds and links, world by world. Only the last strategy has a second case, with recompute. In a
 * world of one rank, there are only cases with the first strategy and without a link.
 */
function ownRunCases(
  worlds: readonly number[],
  links: readonly (LinkNumbers | null)[],
): readonly OwnRunCase[] {
  return worlds.flatMap((world) =>
    (world === 1 ? [null] : links).flatMap((link) =>
      OWN_MODELS.flatMap((model) =>
        kindsOf(world).map((kind) => ({ model, layout: null, ...kind, world, link })),
      ),
    ),
  );
}

function layoutCases(): readonly OwnRunCase[] {
  return LAYOUTS.flatMap((layout) =>
    OWN_MODELS.map((model) => {
      return { model, layout, ...WHOLE, recompute: false, world: layout.world, link: null };
    }),
  );
}

function kindsOf(world: number): readonly Pick<OwnRunCase, 'strategy' | 'recompute'>[] {
  const strategies = world === 1 ? STRATEGIES.slice(0, 1) : STRATEGIES;
  const plain = strategies.map((strategy) => ({ strategy, recompute: false }));
  return [...plain, ...plain.slice(-1).map(({ strategy }) => ({ strategy, recompute: true }))];
}

function configOfCase({ model, layout, strategy, recompute }: OwnRunCase): TrainConfigInput {
  return {
    model,
    data: 'synthetic',
    batch: 4,
    parallel: layout?.parallel ?? { strategy },
    activationCheckpointing: recompute ? 'full' : null,
  };
}

/** Returns a name such as 'bench FULL_SHARD, recomputed, 4 ranks, 2 Gbit/s'. */
function nameOfCase({ model, layout, strategy, recompute, world, link }: OwnRunCase): string {
  const ranks = world === 1 ? '1 rank' : `${world} ranks`;
  const wire = link === null ? (world === 1 ? [] : ['shared memory']) : [`${link.gbit} Gbit/s`];
  return [`${model} ${layout?.name ?? strategy}`, ...(recompute ? ['recomputed'] : []), ranks, ...wire].join(
    ', ',
  );
}

import { dataRanksOf } from '../../config';
import { median } from '../../core';
import { communication, memoryAtPeak, type StepRecord } from '../../ledger';
import type { StepResult } from '../../training';
import type { HeadlessRun } from './headless';

/** Speed and size in the reports of all training commands; the keys are those of the line that torch_gpt_bench.py prints. */
export type SpeedReport = ReturnType<typeof speedReport>;

/** The answer of `shardlab run`. */
export type RunReport = ReturnType<typeof runReport>;

/** Number of warm-up steps, which the speed does not include. Source: torch_gpt_bench.py leaves out its first two steps. */
const NUM_WARM_UP = 2;

/** Returns speed and size of a run; `strategy` is the caller's name for its strategy. */
export function speedReport(run: HeadlessRun, strategy: string) {
  const stepSeconds = median(timedSteps(run).map(({ seconds }) => seconds));
  const tokens = run.results[0]?.tokens ?? 0;
  return {
    engine: run.engine,
    strategy,
    world: run.world,
    mesh: meshOf(run),
    params: run.numParams,
    /** Tokens per second of all ranks together, in the step of median time. */
    tokens_per_s: Math.round(tokens / stepSeconds),
    step_ms: rounded(stepSeconds * 1e3, 1),
    losses: run.results.map(({ loss }) => rounded(loss, 6)),
    rss_mb_max: Math.round(run.maxRssBytes / 2 ** 20),
  };
}

/** Leaves out warm-up steps and profiled steps, unless no step is left. */
function timedSteps({ results, numProfiled }: HeadlessRun): readonly StepResult[] {
  const timed = results.slice(NUM_WARM_UP, results.length - numProfiled);
  return timed.length > 0 ? timed : results;
}

function meshOf({ config, world }: HeadlessRun) {
  const { tp, cp, ep, pp } = config.parallel;
  return { dp: dataRanksOf(config, world), tp, cp, ep, pp };
}

/** Returns the answer of `shardlab run`. */
export function runReport(run: HeadlessRun) {
  return {
    ...speedReport(run, run.config.parallel.strategy),
    blas: run.blas,
    memory: memoryReport(run.records),
    comm: commReport(run.lastStep),
  };
}

/** Returns the peak of device memory and its causes. Reads the records one by one, because there may be many. */
function memoryReport(records: Iterable<StepRecord>) {
  let highest: StepRecord | undefined;
  const ranks = new Map<number, { peak_bytes: number; rest_bytes: number }>();
  for (const record of records) {
    const { peakBytes, restBytes } = record.memory;
    if (highest === undefined || peakBytes > highest.memory.peakBytes) highest = record;
    const most = Math.max(peakBytes, ranks.get(record.rank)?.peak_bytes ?? 0);
    ranks.set(record.rank, { peak_bytes: most, rest_bytes: restBytes });
  }
  const atPeak = highest === undefined ? [] : Object.entries(memoryAtPeak(highest));
  return {
    /** The largest peak of all ranks and steps. */
    peak_bytes: highest?.memory.peakBytes ?? 0,
    /** The bytes of each cause at the moment of this peak. */
    by_cause: Object.fromEntries(atPeak.filter(([, bytes]) => bytes > 0)),
    per_rank: [...ranks].sort(([a], [b]) => a - b).map(([rank, bytes]) => ({ rank, ...bytes })),
  };
}

/** Returns the communication of the rank that received most bytes in the last step. */
function commReport(lastStep: readonly StepRecord[]) {
  const [first = { bytes_by_cause: {}, wire_bytes: 0, exposed_ms: 0 }, ...others] = lastStep.map(commOf);
  return others.reduce((best, comm) => (comm.wire_bytes > best.wire_bytes ? comm : best), first);
}

function commOf(record: StepRecord) {
  const bytes: Record<string, number> = {};
  let wireBytes = 0;
  let exposed = 0;
  for (const row of communication([record])) {
    bytes[row.cause] = (bytes[row.cause] ?? 0) + row.bytes;
    wireBytes += row.wireBytes;
    exposed += row.exposedSeconds;
  }
  return { bytes_by_cause: bytes, wire_bytes: wireBytes, exposed_ms: rounded(exposed * 1e3, 3) };
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

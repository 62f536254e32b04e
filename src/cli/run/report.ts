import { communication } from '../../ledger/communication';
import { memoryAtPeak } from '../../ledger/memory';
import type { BytesByCause, StepRecord } from '../../ledger/record';
import type { HeadlessRun } from './headless';

/** Speed and size, as every training command reports them; the keys are those of the peer's line. */
export interface SpeedReport {
  readonly engine: string;
  readonly strategy: string;
  readonly world: number;
  readonly params: number;
  /** Tokens per second of all ranks, at the median step. */
  readonly tokens_per_s: number;
  readonly step_ms: number;
  readonly losses: readonly number[];
  readonly rss_mb_max: number;
}

/** What `shardlab run` answers. */
export interface RunReport extends SpeedReport {
  readonly blas: string;
  readonly memory: MemoryReport;
  /** Of the last step, for the rank that received most. */
  readonly comm: CommReport;
}

export interface MemoryReport {
  /** Largest over ranks and steps, on the device. */
  readonly peak_bytes: number;
  /** Bytes by cause at that moment. */
  readonly by_cause: Readonly<Record<string, number>>;
  readonly per_rank: readonly {
    readonly rank: number;
    readonly peak_bytes: number;
    readonly rest_bytes: number;
  }[];
}

export interface CommReport {
  readonly bytes_by_cause: Readonly<Record<string, number>>;
  readonly wire_bytes: number;
  readonly exposed_ms: number;
}

/** Warm-up steps, which do not count for the speed. Source: the peer, which drops its first two. */
const NUM_WARM_UP = 2;

/** Speed and size of a run; `strategy` is the caller's name for its strategy. */
export function speedReport(run: HeadlessRun, strategy: string): SpeedReport {
  const warm = run.results.length > NUM_WARM_UP ? run.results.slice(NUM_WARM_UP) : run.results;
  const seconds = warm.map((result) => result.seconds).sort((a, b) => a - b);
  const median = seconds[Math.floor(seconds.length / 2)] ?? Number.NaN;
  const tokens = run.results[0]?.tokens ?? 0;
  return {
    engine: run.engine,
    strategy,
    world: run.world,
    params: run.numParams,
    tokens_per_s: Math.round(tokens / median),
    step_ms: rounded(median * 1e3, 1),
    losses: run.results.map(({ loss }) => rounded(loss, 6)),
    rss_mb_max: Math.round(run.maxRssBytes / 2 ** 20),
  };
}

/** The whole answer of `shardlab run`. */
export function runReport(run: HeadlessRun): RunReport {
  return {
    ...speedReport(run, run.config.parallel.strategy),
    blas: run.blas,
    memory: memoryReport(run.records),
    comm: commReport(run.lastStep),
  };
}

/** There may be many records, so this reads them one by one. */
function memoryReport(records: Iterable<StepRecord>): MemoryReport {
  let highest: StepRecord | undefined;
  const ranks = new Map<number, { peak_bytes: number; rest_bytes: number }>();
  for (const record of records) {
    const { peakBytes, restBytes } = record.memory;
    if (highest === undefined || peakBytes > highest.memory.peakBytes) highest = record;
    const most = Math.max(peakBytes, ranks.get(record.rank)?.peak_bytes ?? 0);
    ranks.set(record.rank, { peak_bytes: most, rest_bytes: restBytes });
  }
  return {
    peak_bytes: highest?.memory.peakBytes ?? 0,
    by_cause: highest === undefined ? {} : present(memoryAtPeak(highest)),
    per_rank: [...ranks].sort(([a], [b]) => a - b).map(([rank, bytes]) => ({ rank, ...bytes })),
  };
}

function commReport(lastStep: readonly StepRecord[]): CommReport {
  const perRank = lastStep.map((record) => commOf(record));
  return largest(perRank, (comm) => comm.wire_bytes) ?? { bytes_by_cause: {}, wire_bytes: 0, exposed_ms: 0 };
}

function commOf(record: StepRecord): CommReport {
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

function present(bytes: BytesByCause): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(bytes).filter(([, held]) => held > 0));
}

function largest<T>(items: readonly T[], size: (item: T) => number): T | undefined {
  return items.reduce<T | undefined>(
    (best, item) => (best === undefined || size(item) > size(best) ? item : best),
    undefined,
  );
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

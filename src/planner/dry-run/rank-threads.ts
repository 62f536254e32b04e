import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { TrainConfig } from '../../config';
import { now, type Seconds } from '../../core';
import type { TimeOptions } from './rank-costs';
import type { RankRun, RankStepOptions } from './rank-run';

/** Threads start if the ranks that have not run yet would take longer than this on one thread. */
const LONG: Seconds = 3;
/** The calling thread waits for the next result at most this many times the time in which it runs one rank itself. */
const PATIENCE = 20;
/**
 * Size of a thread's young generation, MB. A dry run makes many short-lived objects; with less space, their collection takes
 * 10% of the time.
 */
const YOUNG_MB = 96;

/** What all ranks of a dry run have in common; plain data, which can be sent to another thread. */
export interface RankOptions extends Omit<RankStepOptions, 'costs' | 'warn'>, Pick<TimeOptions, 'hardware'> {
  readonly config: TrainConfig;
}

/** What a thread gets. */
export interface RankThreadInput {
  readonly options: RankOptions;
  readonly ranks: readonly number[];
  /** The index of the next rank that no thread has taken, and the number of results that were sent. */
  readonly shared: Int32Array;
  readonly port: MessagePort;
}

/** What a thread sends: a rank's result, or null if the rank failed. */
export interface RankThreadResult {
  readonly index: number;
  readonly run: RankRun | null;
  readonly warnings: readonly string[];
}

/** Takes and returns the index of a rank that no thread has taken; if all are taken, the index is past the last rank. */
export function takeRank(shared: Int32Array): number {
  return Atomics.add(shared, 0, 1);
}

/** Reports to the calling thread that one more result was sent. */
export function tellSent(shared: Int32Array): void {
  Atomics.add(shared, 1, 1);
  Atomics.notify(shared, 1);
}

/** The ranks of a dry run, and how each of them runs. */
export interface SimulatedRanks {
  readonly ranks: readonly number[];
  /** Undefined if the options cannot be sent to another thread. */
  readonly options: RankOptions | undefined;
  /** Whether the ranks are known to take long. */
  readonly isLarge: boolean;
  /** Runs one rank on this thread. */
  readonly run: (rank: number) => RankRun;
  /** Gets the result of a rank that another thread ran. */
  readonly arrived: (result: RankThreadResult) => void;
}

/**
 * Runs ranks one after another, or on all cores if they take long; returns their results in the order of `ranks`. The calling
 * thread also runs ranks, and is blocked until all results exist. A rank that fails on another thread runs again on the calling
 * thread, which then throws the rank's error.
 */
export function runRanks(work: SimulatedRanks): RankRun[] {
  const { ranks, run, options, isLarge } = work;
  if (options !== undefined && isLarge) return onThreads({ ...work, options });
  const [first, ...rest] = ranks;
  if (first === undefined) return [];
  const start = now();
  const runs = [run(first)];
  const isLong = (now() - start) * rest.length > LONG;
  if (options === undefined || !isLong) return [...runs, ...rest.map(run)];
  return [...runs, ...onThreads({ ...work, options, ranks: rest })];
}

function onThreads({
  ranks,
  options,
  run,
  arrived,
}: SimulatedRanks & { readonly options: RankOptions }): RankRun[] {
  const numThreads = Math.min(availableParallelism(), ranks.length) - 1;
  const runs = new Map<number, RankRun>();
  const shared = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
  const threads = Array.from({ length: numThreads }, () => {
    const { port1, port2 } = new MessageChannel();
    const workerData: RankThreadInput = { options, ranks, shared, port: port2 };
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MB };
    const thread = new Worker(join(__dirname, 'rank-thread.js'), {
      workerData,
      transferList: [port2],
      resourceLimits,
    });
    // If a thread fails, its rank has no result, and runs again on the calling thread.
    thread.on('error', () => undefined).unref();
    return { thread, port: port1 };
  });
  const receive = (): void => {
    for (const { port } of threads) {
      for (let sent = receiveMessageOnPort(port); sent !== undefined; sent = receiveMessageOnPort(port)) {
        const result = sent.message as RankThreadResult; // only our threads have the ports' other ends
        if (result.run !== null) runs.set(result.index, result.run);
        arrived(result);
      }
    }
  };
  try {
    let numOwn = 0;
    const start = now();
    for (let index = takeRank(shared); index < ranks.length; index = takeRank(shared)) {
      runs.set(index, run(ranks[index] as number)); // the index is within ranks
      numOwn++;
      receive();
    }
    const patience: Seconds = (PATIENCE * (now() - start)) / numOwn;
    for (let sent = Atomics.load(shared, 1); numOwn + sent < ranks.length; sent = Atomics.load(shared, 1)) {
      if (Atomics.wait(shared, 1, sent, patience * 1e3) === 'timed-out') break;
      receive();
    }
    receive();
    return ranks.map((rank, index) => runs.get(index) ?? run(rank));
  } finally {
    Atomics.store(shared, 0, ranks.length);
    for (const { thread, port } of threads) {
      port.close();
      void thread.terminate();
    }
  }
}

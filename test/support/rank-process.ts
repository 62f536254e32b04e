import { Worker } from 'node:worker_threads';
import type { Engine } from '../../src/backend/engine';
import { createWasmEngine } from '../../src/backend/wasm-engine';
import type { Observer } from '../../src/core/events';
import { NO_SITE } from '../../src/dist/call-site';
import type { ProcessGroup } from '../../src/dist/types';
import { joinWorld } from '../../src/dist/world';
import { type RankMessage, SEGMENT_FD } from './launch-ranks';
import { TallyObserver } from './tally-observer';

/** The values that a rank's script uses. */
export interface TestRank<A> {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly tally: TallyObserver;
  readonly observer: Observer;
  readonly args: A;
}

/** Arguments that every rank script has. */
export interface RankArgs {
  readonly blas: 'auto' | 'none';
}

/** Runs `work` as this process's rank and sends its result, or its error, to the launcher. */
export async function runAsRank<A extends RankArgs>(work: (rank: TestRank<A>) => unknown): Promise<void> {
  endWithParent();
  let message: RankMessage;
  try {
    message = { result: await inWorld(work) };
  } catch (error) {
    message = { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
  process.send?.(message, undefined, {}, () => process.exit());
}

async function inWorld<A extends RankArgs>(work: (rank: TestRank<A>) => unknown): Promise<unknown> {
  // The launcher serialized arguments of this type.
  const args = JSON.parse(process.env.SHARDLAB_TEST_ARGS ?? '{}') as A;
  const searchPaths = JSON.parse(process.env.SHARDLAB_TEST_BLAS_PATHS ?? '[]') as string[];
  const engine = await createWasmEngine({ blas: args.blas, threads: 1, searchPaths });
  const tally = new TallyObserver();
  engine.observe(tally);
  const world = await joinWorld({
    rank: Number(process.env.RANK),
    world: Number(process.env.WORLD_SIZE),
    plane: { kind: 'shared-memory', fd: SEGMENT_FD, bytes: Number(process.env.SHARDLAB_TEST_SEGMENT_BYTES) },
    engine,
    observer: tally,
    // As in the steps of a job's training: no cell calls these collectives.
    callSite: () => NO_SITE,
  });
  try {
    return await work({ engine, group: world.group, tally, observer: tally, args });
  } finally {
    await world.close();
  }
}

/** Ends this process when the launcher's pipe closes, even if the main thread waits. */
function endWithParent(): void {
  const watch = `
    const { Socket } = require('node:net');
    const pipe = new Socket({ fd: 0 });
    pipe.on('close', () => process.kill(process.pid, 'SIGKILL'));
    pipe.resume();
  `;
  new Worker(watch, { eval: true }).unref();
}

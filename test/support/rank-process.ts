import { Worker } from 'node:worker_threads';
import type { Observer } from '../../src/core/events';
import type { Engine } from '../../src/engine/backend/engine';
import { createWasmEngine } from '../../src/engine/backend/wasm-engine';
import { NO_SITE } from '../../src/wire/dist/call-site';
import type { ProcessGroup } from '../../src/wire/dist/types';
import { joinWorld } from '../../src/wire/dist/world';
import { type RankMessage, type RankRequest, SEGMENT_FD } from './rank-pool';
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

type Work = (rank: TestRank<RankArgs>) => unknown;

/** The work of each script that this process has run, by the script's path. */
const works = new Map<string, Work>();
let script = '';

/** Declares what this script does in each rank; its result, or its error, goes to the launcher. */
export function runAsRank<A extends RankArgs>(work: (rank: TestRank<A>) => unknown): void {
  // The launcher sent arguments of this type.
  works.set(script, work as Work);
}

async function run(request: RankRequest): Promise<RankMessage> {
  try {
    script = request.script;
    if (!works.has(script)) require(script);
    const work = works.get(script);
    if (work === undefined) throw new Error(`${script} does not call runAsRank`);
    return { result: await inWorld(work, request) };
  } catch (error) {
    return { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

async function inWorld(work: Work, request: RankRequest): Promise<unknown> {
  // The launcher serialized arguments of this type.
  const args = request.args as RankArgs;
  const { rank, world: size, segmentBytes: bytes, searchPaths } = request;
  const engine = await createWasmEngine({ blas: args.blas, threads: 1, searchPaths });
  const tally = new TallyObserver();
  engine.observe(tally);
  const world = await joinWorld({
    rank,
    world: size,
    plane: { kind: 'shared-memory', fd: SEGMENT_FD, bytes },
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

// This file is also the program of the processes; scripts import it from there.
if (require.main === module) {
  endWithParent();
  process.on(
    'message',
    (request: RankRequest) => void run(request).then((message) => process.send?.(message)),
  );
}

import { availableParallelism } from 'node:os';
import {
  captureConsole,
  createEvaluator,
  type Evaluator,
  showTensorValues,
  watchStrayErrors,
  writeExitCall,
} from '../../cell';
import { globalSlot, now, openThreadCpuClock } from '../../core';
import { Tensor } from '../../core/tf';
import { createWasmEngine, type Engine } from '../../engine';
import { Recorder } from '../../ledger';
import { callSites, continueAtParentsEnd, joinWorld, type PlaneConfig, StatusWriter } from '../../wire';
import type { CourierHandle } from '../control/courier-handle';
import type { ReadyReport } from '../control/messages';
import { LOOK_NAME } from '../control/shared-words';
import type { Look } from '../control/situation';
import { BatchNormWarning } from './batch-norm-warning';
import { CellSteps } from './cell-steps';
import { rankError } from './error';
import { PlaceFinder } from './find-place';
import { CellReplicas } from './replicas';
import { createRankScope } from './scope';
import { RANK_SCOPE } from './scope-host';
import { type RankSetup, SEGMENT_FD } from './setup';
import { TensorPiles } from './tensor-piles';
import { RankTraining } from './training';
import { Walker } from './walker';
import { WorkInterrupts } from './work-interrupts';
import { RankWorker } from './worker';

const STDERR_FD = 2;

/** The number of stack frames that an error stores in a rank. */
const STACK_FRAMES = 60;

/** The lines of the stack of a look if no other code runs: the error, two functions and the guardian's expression. */
const LINES_OF_LOOK = 4;

/** The parts that the rank's program makes before it loads the engine. */
export interface RankStart {
  readonly setup: RankSetup;
  readonly courier: CourierHandle;
  readonly statusBoard: SharedArrayBuffer;
  readonly controlBlock: SharedArrayBuffer | undefined;
}

/**
 * Builds the rank's engine and world, reports that the rank is ready, and does work until the launcher ends the rank. Never
 * rejects.
 */
export async function startRank(start: RankStart): Promise<void> {
  try {
    await buildRank(start);
  } catch (error) {
    start.courier.send({ type: 'failed', error: rankError(error) });
    process.exit(1);
  }
}

async function buildRank(start: RankStart): Promise<void> {
  const { setup, courier, statusBoard } = start;
  // There are many calls between a cell and an error (layers call units, which call tapes); with this limit, the stack
  // still has the cell's line.
  Error.stackTraceLimit = STACK_FRAMES;
  const { rank, world: numRanks, blas, memoryLimit, searchPaths, baseDir } = setup;
  // The ranks divide the machine's cores evenly; only matmuls use more than one core.
  const threads = Math.max(1, Math.floor(availableParallelism() / numRanks));
  let evaluator: Evaluator | undefined;
  const place = (): string => {
    const { cell, line, text } = callSites.findCallSite(evaluator?.toWritten);
    return cell === undefined ? text : `cell ${cell}, line ${line}`;
  };
  const limit = memoryLimit === null ? {} : { memoryLimit };
  const interrupts = new WorkInterrupts(courier);
  const engine = await createWasmEngine({ blas, threads, searchPaths, place, interrupts, ...limit });
  globalSlot<() => string>(LOOK_NAME).value = () => JSON.stringify(lookHere(engine, place));
  const recorder = new Recorder({ rank, world: numRanks }, now, openThreadCpuClock());
  engine.observe(recorder);
  showTensorValues(Tensor);
  let training: RankTraining | undefined;
  const world = await joinWorld({
    rank,
    world: numRanks,
    plane: planeOf(start),
    link: setup.link ?? undefined,
    nodes: setup.nodes ?? undefined,
    engine,
    observer: recorder,
    statusBoard,
    callSite: () =>
      training?.isStepping === true ? callSites.NO_SITE : callSites.findCallSite(evaluator?.toWritten),
    groupMade: ({ name, ranks }) => courier.knowGroup(name, ranks),
  });
  const warn = (message: string): void => worker.write('stderr', `warning: ${message}\n`);
  const batchNorms = new BatchNormWarning(warn);
  const piles = new TensorPiles(warn);
  engine.observe(piles.observer);
  const steps = new CellSteps({ engine, recorder, warn, passBegins: () => piles.beginStep() });
  const replicas = new CellReplicas(engine);
  const common = { rank, engine, warn, batchNorms };
  const observing = { observer: replicas.observing(recorder), steps, link: setup.link ?? undefined };
  const scope = createRankScope({ ...common, ...observing, world, place, files: setup });
  RANK_SCOPE.value = scope;
  evaluator = createEvaluator({ baseDir, globals: { ...scope } });
  const { load } = evaluator;
  const walker = new Walker({ courier, recorder, interrupts, places: new PlaceFinder(evaluator) });
  training = new RankTraining({ ...world, ...common, recorder, walker, scope, load, interrupts });
  const board = new StatusWriter(statusBoard, 'main');
  board.idle();
  const watches = { piles, steps, replicas, interrupts, walker };
  const parts = { courier, world, evaluator, engine, scope, training, board, ...watches };
  const worker: RankWorker = new RankWorker(parts);
  const tellExit = (code: number): void => writeExitCall(STDERR_FD, code);
  process.on('exit', tellExit);
  worker.listen(async () => {
    process.off('exit', tellExit);
    await world.close();
    process.exit(0);
  });
  watchStrayErrors((stray) => worker.reportStray(stray));
  continueAtParentsEnd();
  await courier.attached;
  courier.send({ type: 'ready', report: readyReport(setup, engine) });
  captureConsole((name, text) => worker.write(name, text));
}

function lookHere(engine: Engine, place: () => string): Look {
  const isAwaiting = (new Error().stack ?? '').split('\n').length <= LINES_OF_LOOK;
  const { heapUsed, external } = process.memoryUsage();
  return {
    place: isAwaiting ? '' : place(),
    numOps: engine.numBuffersMade,
    madeBytes: heapUsed + external,
    isAwaiting,
  };
}

function planeOf({ setup, controlBlock }: RankStart): PlaneConfig {
  const { planeAddresses: addresses, control } = setup;
  if (controlBlock !== undefined)
    return { kind: 'zeromq', addresses, token: control.token, control: controlBlock };
  return { kind: 'shared-memory', fd: SEGMENT_FD, bytes: setup.segmentBytes ?? 0 };
}

function readyReport(setup: RankSetup, engine: Engine): ReadyReport {
  return {
    pid: process.pid,
    rssBytes: process.memoryUsage.rss(),
    engine: engine.name,
    blas: engine.blas.library ?? 'none',
    transport: setup.segmentBytes === null ? 'zeromq' : 'shared memory',
    readyMs: (now() - setup.startedSeconds) * 1e3,
  };
}

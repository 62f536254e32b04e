import '../../core/code-cache/use';
import { writeFileSync } from 'node:fs';
import { markUnbroken } from '../../cell';
import { createControlBuffer, createStatusBoard } from '../../wire';
import { startCourier } from '../control/courier-handle';
import { LIFELINE_FD, takeRankSetup } from './setup';

/**
 * When memory runs out and Linux looks for a process to kill, it adds this many thousandths of the available memory to a
 * rank's own memory. Source: proc(5).
 */
const VICTIM_SCORE = 500;

/*
 * The program of a rank process. The courier starts first. So the rank is reachable, and ends with its launcher, even
 * while the main thread still loads the engine.
 */
const setup = takeRankSetup(process.env);
if (setup === undefined) {
  process.stderr.write('This program is a rank of a shardlab job; launch({ ranks }) starts it.\n');
  process.exit(2);
}
goBeforeLauncher();
const { rank, control, folder } = setup;
const statusBoard = createStatusBoard();
const controlBlock = setup.segmentBytes === null ? createControlBuffer() : undefined;
const courier = startCourier({
  rank,
  control,
  folder,
  lifelineFd: LIFELINE_FD,
  statusBoard,
  controlBlock,
  unbroken: markUnbroken(),
});

// This module is loaded after the start of the courier, because loading tfjs takes a while.
void import('./start.js').then(({ startRank }) => startRank({ setup, courier, statusBoard, controlBlock }));

/**
 * Makes Linux kill this process, and not its launcher, when memory runs out. So the notebook survives and reports the
 * cause.
 */
function goBeforeLauncher(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', String(VICTIM_SCORE));
  } catch {
    // Only Linux has this file, and some containers refuse writes to it; then Linux chooses a process by itself.
  }
}

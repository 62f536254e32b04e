import { writeFileSync } from 'node:fs';
import { createStatusBoard } from '../../dist/status-board';
import { createControlBuffer } from '../../transport/control-block';
import { startCourier } from '../control/courier-handle';
import { LIFELINE_FD, takeRankSetup } from './setup';

/** Share of the memory, in thousandths, that is added to a rank's own when the kernel looks for a process to end. Source: proc(5). */
const VICTIM_SCORE = 500;

/*
 * The program of a rank process. The courier starts first, so that the rank is reachable, and ends with its launcher,
 * while the main thread still loads the engine.
 */
const setup = takeRankSetup(process.env);
if (setup === undefined) {
  process.stderr.write('This program is a rank of a shardlab job; it is started by launch({ ranks }).\n');
  process.exit(2);
}
goBeforeLauncher();
const { rank, control, folder } = setup;
const statusBoard = createStatusBoard();
const controlBlock = setup.segmentBytes === null ? createControlBuffer() : undefined;
const courier = startCourier({ rank, control, folder, lifelineFd: LIFELINE_FD, statusBoard, controlBlock });

// Loaded after the courier was started: tfjs takes a while.
void import('./start.js').then(({ startRank }) => startRank({ setup, courier, statusBoard, controlBlock }));

/** Lets the kernel end this process before its launcher when memory runs out: the notebook lives, and says what happened. */
function goBeforeLauncher(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', String(VICTIM_SCORE));
  } catch {
    // Only Linux has it, and some containers refuse it: the kernel then chooses by itself.
  }
}

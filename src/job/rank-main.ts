import { createStatusBoard } from '../dist/status-board';
import { createControlBuffer } from '../transport/control-block';
import { startCourier } from './courier-handle';
import { goBeforeLauncher } from './host-memory';
import { LIFELINE_FD } from './rank-process';
import { takeRankSetup } from './rank-setup';

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
void import('./rank-start.js').then(({ startRank }) =>
  startRank({ setup, courier, statusBoard, controlBlock }),
);

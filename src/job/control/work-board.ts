import { StatusWriter } from '../../dist/status-board';

/** What the board shows for work that is no cell. */
export const NO_CELL = 0;

/** Where the main thread says what it runs. */
export interface WorkBoard {
  running(cell: number | undefined): void;
  idle(): void;
}

/** Writes to the rank's status board. */
export function createWorkBoard(statusBoard: SharedArrayBuffer): WorkBoard {
  const writer = new StatusWriter(statusBoard, 'main');
  writer.idle();
  return {
    running: (cell) => writer.running(cell ?? NO_CELL),
    idle: () => writer.idle(),
  };
}

import { StatusWriter } from '../../dist/status-board';

/** The board's number for work that is not a cell. */
export const NO_CELL = 0;

/** The main thread writes its current work here. */
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

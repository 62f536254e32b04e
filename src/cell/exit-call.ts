import { writeSync } from 'node:fs';
import { cellOf } from './stray-errors';

/** Writes that the code called process.exit; call it in a listener of 'exit', below that call. */
export function writeExitCall(fd: number, code: number): void {
  const cell = cellOf(new Error());
  try {
    writeSync(fd, `the code called process.exit(${code})${cell === undefined ? '' : ` in In[${cell}]`}\n`);
  } catch {
    // The reader is gone; the process ends without a last message.
  }
}

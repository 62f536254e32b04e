import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { EVALUATOR_FLAGS } from '../../src/cell/evaluator-flags';

/** The result of one interrupt, as the driver prints it: one JSON line per form. */
export interface InterruptOutcome {
  readonly form: string;
  readonly ename: string | undefined;
  /** Time from the request until the cell is settled. */
  readonly milliseconds: number;
  /** A variable of an earlier cell, to which the next cell adds. */
  readonly kept: unknown;
}

/** Longer than the driver takes on a busy machine. */
const HANG_MS = 60_000;

/** Runs the driver, which interrupts every form of FORMS. */
export function interruptOutcomes(): readonly InterruptOutcome[] {
  const { stdout } = spawnSync(
    process.execPath,
    [...EVALUATOR_FLAGS, join(__dirname, 'interrupt-driver.js')],
    { encoding: 'utf8', timeout: HANG_MS },
  );
  return stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

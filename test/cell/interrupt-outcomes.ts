import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { EVALUATOR_FLAGS } from '../../src/cell/evaluator';

/** What one interrupt did, as the driver prints it, one JSON line a form. */
export interface InterruptOutcome {
  readonly form: string;
  readonly ename: string | undefined;
  /** From the request to the settled cell. */
  readonly milliseconds: number;
  /** A variable of an earlier cell, added to by the next one. */
  readonly kept: unknown;
}

/** Longer than the driver takes on a busy machine. */
const HANG_MS = 60_000;

/** Runs the driver: every form of FORMS, interrupted. */
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

/** The result of one check of a folder. */
export interface Finding {
  /** What was checked. 'memory': the dry start beside the plan. */
  readonly check: 'files' | 'syntax' | 'launch' | 'parser' | 'dry start' | 'memory';
  /** The file, or file:line. */
  readonly file: string;
  readonly status: 'passed' | 'failed' | 'not checked';
  /** What is so; of a failed check also what to do. */
  readonly says: string;
}

/** Returns that a check found no fault. */
export function passed(check: Finding['check'], file: string, says: string): Finding {
  return { check, file, status: 'passed', says };
}

/** Returns a fault. */
export function failed(check: Finding['check'], file: string, says: string): Finding {
  return { check, file, status: 'failed', says };
}

/** Returns that something was not checked, and why. */
export function notChecked(check: Finding['check'], file: string, says: string): Finding {
  return { check, file, status: 'not checked', says };
}

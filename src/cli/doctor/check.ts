/**
 * good: present. note: absent, and everything else works without it. bad: something does not work until this is fixed.
 */
export type CheckStatus = 'good' | 'note' | 'bad';

/** The doctor's result for one thing. */
export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  readonly found: string;
  /** What to do, if anything. */
  readonly advice?: string;
  /** Facts for programs. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

/** good: is there. note: is not there, and all else works without. bad: something does not work until it is mended. */
export type CheckStatus = 'good' | 'note' | 'bad';

/** What the doctor found out about one thing. */
export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  readonly found: string;
  /** What to do, where something should be done. */
  readonly advice?: string;
  /** Facts for programs. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

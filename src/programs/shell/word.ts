/** A word of a shell script, and the line on which it was written. */
export interface Word {
  readonly text: string;
  readonly line: number;
}

/** The variables of a script, each with its words. */
export type Variables = Map<string, readonly Word[]>;

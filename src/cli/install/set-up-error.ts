import { ShardlabError } from '../../core';

/** The error of a step of set-up that failed: what happened, and what to do. */
export class SetUpError extends ShardlabError {
  readonly what: string;
  /** One piece of advice per line. */
  readonly advice: readonly string[];

  constructor(what: string, advice: readonly string[]) {
    super('ENGINE', [what, ...advice.map((line) => `  → ${line}`)].join('\n'));
    this.what = what;
    this.advice = advice;
  }
}

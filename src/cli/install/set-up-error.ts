import { ShardlabError } from '../../core';

/** The error of a step of set-up that failed: what happened, and what to do. */
export class SetUpError extends ShardlabError {
  readonly failure: string;
  /** One piece of advice per line. */
  readonly advice: readonly string[];

  constructor(failure: string, advice: readonly string[]) {
    super('ENGINE', [failure, ...advice.map((line) => `  → ${line}`)].join('\n'));
    this.failure = failure;
    this.advice = advice;
  }
}

import { type ErrorCode, ShardlabError } from '../core/errors';

/** 0 good, 1 failed, 2 bad usage or bad input. */
export type ExitStatus = 0 | 1 | 2;

const BAD_INPUT: readonly ErrorCode[] = ['CONFIG', 'MESH'];

/** The exit status that an error means. */
export function exitStatusOf(error: unknown): ExitStatus {
  return error instanceof ShardlabError && BAD_INPUT.includes(error.code) ? 2 : 1;
}

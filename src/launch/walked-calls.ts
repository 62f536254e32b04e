import { ConfigError, rankNames } from '../core';
import type { RankCall } from './call';

/** Throws: CONFIG if a walk halts one of the ranks, because the ranks would begin other work only after the walk. */
export function requireNoWalk(running: ReadonlyMap<number, RankCall>, ranks: readonly number[]): void {
  for (const [rank, call] of running) {
    if (!ranks.includes(rank) || !('walks' in call.work) || call.work.walks !== true) continue;
    throw new ConfigError(
      `a walk halts ${rankNames(call.ranks)} in ${call.title}; end it with await walk.live() before other work on these ranks`,
    );
  }
}

import { formatSeconds, now, rankNames, type Seconds, type Shown, shownAsText, withShown } from '../core';
import { firstRanks } from './control/selection';
import { isPair, type Situation } from './control/situation';
import { explainCircle } from './deadlock';
import { describeExit, type RankExit } from './rank-process';
import { type CollectiveWait, describeCollective, findWaits } from './waits';

/** A hang report: who waits for whom, as data and as a sentence. A notebook shows the sentence. */
export interface Why extends Shown {
  readonly waits: readonly CollectiveWait[];
  readonly situations: ReadonlyMap<number, Situation>;
  readonly text: string;
}

/**
 * Explains what ranks do now. A rank without a situation did not answer; a rank with an exit has ended; `damages` has
 * the WebAssembly kernel that crashed in a rank, by the rank.
 */
export function explain(
  situations: ReadonlyMap<number, Situation>,
  numRanks: number,
  exits: ReadonlyMap<number, RankExit>,
  at: Seconds = now(),
  damages: ReadonlyMap<number, string> = new Map(),
): Why {
  const waits = findWaits(situations);
  const doing = (rank: number): string => {
    const damage = damages.get(rank);
    const does = describeRank(situations.get(rank), exits.get(rank));
    return damage === undefined ? does : `${does} with a damaged heap (${damage}; ${AFTER_DAMAGE})`;
  };
  const circle = explainCircle(waits);
  const lines = [
    ...waits.map((wait) => waitSentence(wait, doing, at)),
    ...(circle === undefined ? [] : [circle]),
  ];
  const text =
    lines.length > 0 ? lines.join('\n') : `nobody waits: ${byDoing(firstRanks(numRanks), doing, ' ')}`;
  return createWhy(waits, situations, text);
}

/** Creates a report with this text. */
export function createWhy(
  waits: readonly CollectiveWait[],
  situations: ReadonlyMap<number, Situation>,
  text: string,
): Why {
  return withShown({ waits, situations, text }, shownAsText(text));
}

/** The advice for a rank whose heap is damaged. */
const AFTER_DAMAGE = 'await job.shutdown(), then launch again';

function waitSentence(wait: CollectiveWait, doing: (rank: number) => string, at: Seconds): string {
  const verb = wait.ranks.length === 1 ? 'waits' : 'wait';
  const head = `${rankNames(wait.ranks)} ${verb} in ${describeCollective(wait.collective)}`;
  const tail = ` (${formatSeconds(Math.max(0, at - wait.since))} so far)`;
  const isPeer = isPair(wait.collective)
    ? `, whose other side rank ${wait.collective.ranks[1]} has called`
    : '';
  if (wait.waitsFor.length === 0)
    return `${head}${isPeer || ', which all ranks of its group have called'}${tail}`;
  return `${head} for ${byDoing(wait.waitsFor, doing, ', which ')}${tail}`;
}

/** Groups ranks that do the same: "rank 2, which runs cell 8" or "rank 1 runs cell 8; ranks 0, 2 are idle". */
function byDoing(ranks: readonly number[], doing: (rank: number) => string, joint: string): string {
  const groups = new Map<string, number[]>();
  for (const rank of ranks) groups.set(doing(rank), [...(groups.get(doing(rank)) ?? []), rank]);
  return [...groups]
    .map(([activity, same]) => `${rankNames(same)}${joint}${plural(activity, same.length)}`)
    .join('; ');
}

function plural(activity: string, count: number): string {
  if (count === 1) return activity;
  return activity
    .replace(/^(run|wait)s /, '$1 ')
    .replace(/^is /, 'are ')
    .replace(/^has /, 'have ')
    .replace(/^does /, 'do ');
}

function describeRank(situation: Situation | undefined, exit: RankExit | undefined): string {
  if (exit !== undefined) return `has ended (${describeExit(exit)})`;
  if (situation === undefined) return 'does not answer';
  const cell = situation.cell === undefined ? 'a call' : `cell ${situation.cell}`;
  if (situation.waiting !== undefined) return `waits in ${describeCollective(situation.waiting)}`;
  return situation.state === 'idle' ? 'is idle' : `runs ${cell}`;
}

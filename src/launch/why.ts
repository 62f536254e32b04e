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
  /** What each rank that waits, or for which a rank waits, does. */
  readonly ranks: readonly RankDoing[];
  readonly text: string;
}

/** What a rank does, and for how long it has done it; undefined: unknown. */
export interface RankDoing {
  readonly rank: number;
  readonly does: string;
  readonly isWaiting: boolean;
  readonly seconds: Seconds | undefined;
}

/** What is known of ranks' processes, by the rank. */
export interface ProcessFacts {
  readonly exits?: ReadonlyMap<number, RankExit>;
  /** The processes that a signal has stopped (SIGSTOP, Ctrl-Z), and that therefore answer nothing. */
  readonly stopped?: ReadonlyMap<number, number>;
  /** The WebAssembly kernel that crashed in a rank. */
  readonly damages?: ReadonlyMap<number, string>;
}

/** Explains what ranks do now. A rank without a situation did not answer; a rank with an exit has ended. */
export function explain(
  situations: ReadonlyMap<number, Situation>,
  numRanks: number,
  { exits, stopped, damages }: ProcessFacts = {},
  at: Seconds = now(),
): Why {
  const waits = findWaits(situations);
  const doing = (rank: number): string => {
    const damage = damages?.get(rank);
    const pid = stopped?.get(rank);
    const does =
      pid === undefined
        ? describeRank(situations.get(rank), exits?.get(rank))
        : `is stopped (kill -CONT ${pid} continues it)`;
    return damage === undefined ? does : `${does} with a damaged heap (${damage}; ${AFTER_DAMAGE})`;
  };
  const circle = explainCircle(waits);
  const lines = [
    ...waits.map((wait) => waitSentence(wait, doing, at)),
    ...(circle === undefined ? [] : [circle]),
  ];
  const text =
    lines.length > 0 ? lines.join('\n') : `nobody waits: ${byDoing(firstRanks(numRanks), doing, ' ')}`;
  const shown = new Set(waits.flatMap((wait) => [...wait.ranks, ...wait.waitsFor]));
  const ranks = [...shown]
    .sort((a, b) => a - b)
    .map((rank) => {
      const { waiting, since } = situations.get(rank) ?? {};
      return {
        rank,
        does: doing(rank),
        isWaiting: waiting !== undefined,
        seconds: since === undefined ? undefined : Math.max(0, at - since),
      };
    });
  return createWhy({ waits, situations, ranks, text });
}

/** Creates a report, which a notebook shows as its text. */
export function createWhy(facts: Omit<Why, keyof Shown>): Why {
  return withShown(facts, shownAsText(facts.text));
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
    .replace(/^(run|wait|await)s /, '$1 ')
    .replace(/^is /, 'are ')
    .replace(/^has /, 'have ')
    .replace(/^does /, 'do ');
}

function describeRank(situation: Situation | undefined, exit: RankExit | undefined): string {
  if (exit !== undefined) return `has ended (${describeExit(exit)})`;
  if (situation === undefined) return 'does not answer';
  if (situation.stoppedAt !== undefined) return `is stopped by the debugger at ${situation.stoppedAt}`;
  if (situation.waiting !== undefined) return `waits in ${describeCollective(situation.waiting)}`;
  if (situation.state === 'idle') return 'is idle';
  const cell = situation.cell === undefined ? 'a call' : `cell ${situation.cell}`;
  const { place = '', isAwaiting = false } = situation.look ?? {};
  if (isAwaiting) return `awaits something in ${cell}`;
  return `runs ${place === '' ? cell : place}`;
}

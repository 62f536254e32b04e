import { rankNames } from '../../core/rank-names';
import { formatSeconds, now, type Seconds } from '../../core/units';
import { type Shown, shownAsText, withShown } from '../../figures/shown';
import { firstRanks } from '../control/selection';
import type { Situation, WaitingIn } from '../control/situation';
import { describeExit, type RankExit } from './rank-process';

/** Ranks that wait in one collective, and the ranks that have not called it. */
export interface Wait {
  readonly ranks: readonly number[];
  readonly collective: WaitingIn;
  /** When the first of the waiting ranks began to wait. */
  readonly since: Seconds;
  readonly waitsFor: readonly number[];
}

/** A hang report: who waits for whom, as data and as a sentence. A notebook shows the sentence. */
export interface Why extends Shown {
  readonly waits: readonly Wait[];
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
  const lines = waits.map((wait) => waitSentence(wait, doing, at));
  const text =
    lines.length > 0 ? lines.join('\n') : `nobody waits: ${byDoing(firstRanks(numRanks), doing, ' ')}`;
  return createWhy(waits, situations, text);
}

/** Creates a report with this text. */
export function createWhy(
  waits: readonly Wait[],
  situations: ReadonlyMap<number, Situation>,
  text: string,
): Why {
  return withShown({ waits, situations, text }, shownAsText(text));
}

/** The advice for a rank whose heap is damaged. */
const AFTER_DAMAGE = 'await job.shutdown(), then launch again';

/** Groups ranks that wait in the same collective, and says which ranks have not called it. */
export function findWaits(situations: ReadonlyMap<number, Situation>): Wait[] {
  const waits = new Map<string, { ranks: number[]; collective: WaitingIn; since: Seconds }>();
  for (const [rank, { waiting, since }] of [...situations].sort(([a], [b]) => a - b)) {
    if (waiting === undefined) continue;
    const key = `${waiting.group} ${waiting.number} ${waiting.op} ${waiting.ranks.join(',')}`;
    const wait = waits.get(key) ?? { ranks: [], collective: waiting, since };
    wait.ranks.push(rank);
    waits.set(key, { ...wait, since: Math.min(wait.since, since) });
  }
  return [...waits.values()].map((wait) => ({
    ...wait,
    waitsFor: wait.collective.ranks.filter((rank) => !hasCalled(situations.get(rank), wait.collective)),
  }));
}

function hasCalled(situation: Situation | undefined, collective: WaitingIn): boolean {
  return (situation?.lastCalled[collective.group] ?? 0) >= collective.number;
}

function waitSentence(wait: Wait, doing: (rank: number) => string, at: Seconds): string {
  const verb = wait.ranks.length === 1 ? 'waits' : 'wait';
  const head = `${rankNames(wait.ranks)} ${verb} in ${describeCollective(wait.collective)}`;
  const tail = ` (${formatSeconds(Math.max(0, at - wait.since))} so far)`;
  if (wait.waitsFor.length === 0) return `${head}, which all ranks of its group have called${tail}`;
  return `${head} for ${byDoing(wait.waitsFor, doing, ', which ')}${tail}`;
}

/** Groups ranks that do the same: "rank 2, which runs cell 8" or "rank 1 runs cell 8; ranks 0, 2 are idle". */
function byDoing(ranks: readonly number[], doing: (rank: number) => string, joint: string): string {
  const groups = new Map<string, number[]>();
  for (const rank of ranks) groups.set(doing(rank), [...(groups.get(doing(rank)) ?? []), rank]);
  return [...groups]
    .map(([what, same]) => `${rankNames(same)}${joint}${plural(what, same.length)}`)
    .join('; ');
}

function plural(what: string, count: number): string {
  if (count === 1) return what;
  return what
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

/** Returns a text such as "barrier #41 (cell 8, line 1)", with the group's name unless the group is the whole world. */
export function describeCollective({
  op,
  number,
  group,
  cell,
  line,
  module,
  detail = '',
}: WaitingIn): string {
  const places = [
    detail,
    group === 'world' ? '' : `group ${group}`,
    module === '' ? '' : `module ${module}`,
    cell === undefined ? '' : `cell ${cell}`,
    line === undefined ? '' : `line ${line}`,
  ].filter((place) => place !== '');
  return `${op} #${number}${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}

/** How long a rank may wait for an idle rank, because the idle rank may soon get a call with the collective. */
const GRACE_SECONDS: Seconds = 0.5;

/** Time between two checks. */
const POLL_MS = 125;

/** A collective that can never complete. */
export interface MissingCollective {
  readonly text: string;
  /** The ranks that ended their work without calling this collective. */
  readonly idle: readonly number[];
}

/** Finds ranks that have waited longer than the grace period for a rank that has also been idle for longer than this period. */
export function findMissing(
  situations: ReadonlyMap<number, Situation>,
  idle: readonly number[],
  at: Seconds = now(),
): MissingCollective | undefined {
  const idleLong = idle.filter((rank) => {
    const situation = situations.get(rank);
    return situation?.state === 'idle' && !situation.hasBackground && at - situation.since > GRACE_SECONDS;
  });
  for (const wait of findWaits(situations)) {
    const absent = wait.waitsFor.filter((rank) => idleLong.includes(rank));
    if (absent.length === 0 || at - wait.since <= GRACE_SECONDS) continue;
    const verb = wait.ranks.length === 1 ? 'waits' : 'wait';
    const text =
      `${rankNames(wait.ranks)} ${verb} in ${describeCollective(wait.collective)}, but ${rankNames(absent)} ended without calling it; ` +
      `let every rank of the group call ${calledAs(wait.collective)}, or make a group of the ranks that call it`;
    return { text, idle: absent };
  }
  return undefined;
}

/**
 * Returns the function that the user called. A library function writes its own name as the module, as 'FSDP.optimStateDict()'.
 */
function calledAs({ op, module }: WaitingIn): string {
  return module.endsWith('()') ? `${module}, not rank 0 alone` : op;
}

/**
 * Checks at intervals, and reports a missing collective only if two checks in a row find it, because between two collectives
 * of a comm thread a rank can look idle for a moment. The returned function ends the checks.
 */
export function watchForMissing(
  look: () => Promise<MissingCollective | undefined>,
  found: (missing: MissingCollective) => void,
): () => void {
  let before: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let hasEnded = false;
  const again = (): void => {
    timer = setTimeout(() => {
      void look().then((missing) => {
        if (hasEnded) return;
        if (missing !== undefined && missing.text === before) found(missing);
        before = missing?.text;
        again();
      });
    }, POLL_MS);
  };
  again();
  return () => {
    hasEnded = true;
    clearTimeout(timer);
  };
}

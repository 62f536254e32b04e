import { ShardlabError } from '../../core';
import type { CallSide } from './record';

/** The names and numbers of a group and of this rank, which errors show. */
export interface GroupIdentity {
  readonly name: string;
  /** Global ranks in group order. */
  readonly ranks: readonly number[];
  /** This rank's index in the group. */
  readonly rank: number;
  readonly world: number;
}

/** Returns "[rank 1/4]", with the global rank and the world. */
export function speaker({ ranks, rank, world }: GroupIdentity): string {
  return `[rank ${ranks[rank] ?? rank}/${world}]`;
}

export const RESET_ADVICE =
  'The group cannot be used again until the job is reset (a new epoch begins when the cell has ended on all ranks).';

/** Returns the error of a group whose ranks called different collectives; `sides` has one entry per rank, with global ranks. */
export function mismatchError(identity: GroupIdentity, sides: readonly CallSide[]): ShardlabError {
  const message =
    `${speaker(identity)} ranks of group ${identity.name} called different collectives: ` +
    `${foldSides(sides).join('; ')}. All ranks of a group must call the same collectives ` +
    `with the same sizes in the same order. ${RESET_ADVICE}`;
  return new ShardlabError('COLLECTIVE_MISMATCH', message, {
    rank: identity.ranks[identity.rank],
    details: { group: identity.name, sides },
  });
}

export function brokenError(identity: GroupIdentity): ShardlabError {
  return new ShardlabError(
    'COLLECTIVE_MISMATCH',
    `${speaker(identity)} group ${identity.name} is broken: its ranks called different collectives earlier. ${RESET_ADVICE}`,
    { rank: identity.ranks[identity.rank], details: { group: identity.name } },
  );
}

/** Returns one text for each different call, with the ranks that made this call. */
function foldSides(sides: readonly CallSide[]): string[] {
  const differ = sides.some(({ contents }) => contents !== sides[0]?.contents);
  const ranksBySentence = new Map<string, number[]>();
  for (const side of sides) {
    const sentence = describeSide(side, differ);
    ranksBySentence.set(sentence, [...(ranksBySentence.get(sentence) ?? []), side.rank]);
  }
  return [...ranksBySentence].map(
    ([sentence, ranks]) => `${ranks.length > 1 ? 'ranks' : 'rank'} ${ranks.join(', ')} called ${sentence}`,
  );
}

/** What the rank is that a call names. */
const PEER_WORDS: Readonly<Partial<Record<CallSide['op'], string>>> = {
  broadcast: 'source',
  scatter: 'source',
  gather: 'destination',
  reduce: 'destination',
};

/** Describes a call. What the call carries is left out if it is the same on all sides. */
function describeSide(side: CallSide, hasContents: boolean): string {
  const { op, number, count, dtype, wireDType, reduction, peer, module, site, detail, contents } = side;
  const name = op === 'exchange' ? 'allGather' : op;
  const data = name === 'barrier' || name === 'subgroup' ? '' : ` of ${count} ${dtype}`;
  const details = [
    side.async ? 'asynchronous' : undefined,
    reduction,
    wireDType === dtype ? undefined : `${wireDType} on the wire`,
    peer < 0 ? undefined : `${PEER_WORDS[op] ?? 'peer'} ${peer}`,
    `number ${number}`,
    module === '' ? undefined : `module ${module}`,
    detail === '' ? undefined : detail,
    hasContents && contents !== '' ? contents : undefined,
  ].filter((word) => word !== undefined);
  return `${name}${data} (${details.join(', ')})${site === '' ? '' : ` at ${site}`}`;
}

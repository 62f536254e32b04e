import { ShardlabError } from '../../core/errors';
import source from './claims.json';

/** The documents whose statements are checked, and what each is about. */
export const DOCUMENTS = source.documents;

export type DocumentName = keyof typeof DOCUMENTS;

export type ClaimKind =
  | 'memory'
  | 'throughput'
  | 'communication'
  | 'scaling'
  | 'numerics'
  | 'cost'
  | 'mechanism'
  | 'config'
  | 'code'
  | 'advice';

/** What a document states. */
export interface Claim {
  /** As 'wan.mem.params'. */
  readonly id: string;
  readonly document: DocumentName;
  readonly kind: ClaimKind;
  readonly statement: string;
  /** The number, two for a range; null where none is stated. */
  readonly documented: number | readonly [number, number] | null;
  /** Of `documented`; changes are percents of what was before, negative where something falls. */
  readonly unit: string | null;
  /** What the document says of the circumstances. */
  readonly given: Readonly<Record<string, unknown>>;
  /** Where the number is a bound. */
  readonly relation?: '>' | '>=' | '<' | 'up to';
}

// The file's claims have this shape; the type of a JSON import has no unions.
const STATED = new Map(
  (source.claims as readonly unknown[] as readonly Claim[]).map((claim) => [claim.id, claim]),
);

/** The ids of all that the documents state, in their order. */
export const CLAIM_IDS: readonly string[] = [...STATED.keys()];

/** The claim of an id. Throws: CHECK where the documents state none of that id. */
export function claimOf(id: string): Claim {
  const claim = STATED.get(id);
  if (claim !== undefined) return claim;
  throw new ShardlabError('CHECK', `the documents state no '${id}': add it to claims.json`);
}

/** The one number that a claim states. Throws: CHECK where it states none, or a range. */
export function documentedNumber(id: string): number {
  const { documented } = claimOf(id);
  if (typeof documented === 'number') return documented;
  throw new ShardlabError('CHECK', `${id} states ${JSON.stringify(documented)}, not one number`);
}

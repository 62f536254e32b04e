import { ShardlabError } from '../../core/errors';
import source from './claims.json';

/** The documents whose statements are checked, and the subject of each. */
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
  /** The stated number, or two numbers for a range; null if none is stated. */
  readonly documented: number | readonly [number, number] | null;
  /** Unit of `documented`. A change is a percentage of the value before it, and negative if the value falls. */
  readonly unit: string | null;
  /** The circumstances that the document states. */
  readonly given: Readonly<Record<string, unknown>>;
  /** Set if the number is a bound. */
  readonly relation?: '>' | '>=' | '<' | 'up to';
}

// The file's claims have this shape; the type of a JSON import has no unions.
const STATED = new Map(
  (source.claims as readonly unknown[] as readonly Claim[]).map((claim) => [claim.id, claim]),
);

/** The ids of all claims, in the order of the documents. */
export const CLAIM_IDS: readonly string[] = [...STATED.keys()];

/** Returns the claim with an id. Throws: CHECK if there is none. */
export function claimOf(id: string): Claim {
  const claim = STATED.get(id);
  if (claim !== undefined) return claim;
  throw new ShardlabError('CHECK', `the documents state no '${id}': add it to claims.json`);
}

/** Returns the number that a claim states. Throws: CHECK if it states none, or a range. */
export function documentedNumber(id: string): number {
  const { documented } = claimOf(id);
  if (typeof documented === 'number') return documented;
  throw new ShardlabError('CHECK', `${id} states ${JSON.stringify(documented)}, not one number`);
}

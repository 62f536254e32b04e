import accelerate from '../../claims/accelerate-multinode.json';
import guide from '../../claims/fsdp-guide.json';
import swift from '../../claims/fsdp-megatron-swift.json';
import zero3 from '../../claims/wan-deepspeed-zero3.json';
import wan22 from '../../claims/wan22-fsdp.json';
import { type MemoryCause, ShardlabError } from '../core';
import type { PlanObject } from '../planner';
import type { EvidenceKind, Verdict } from './finding';
import type { StatedPart } from './stated-part';

/** The names of the documents whose statements are checked. */
const NAMES = [
  'wan22-fsdp',
  'fsdp-guide',
  'wan-deepspeed-zero3',
  'accelerate-multinode',
  'fsdp-megatron-swift',
] as const;

export type DocumentName = (typeof NAMES)[number];

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

/** A statement of a document. */
export interface Claim {
  /** The claim's name, such as 'wan.mem.params'. */
  readonly id: string;
  /** The document that states the claim; 'own': a reader's claim, which `sl.claims` registers. */
  readonly document: DocumentName | 'own';
  readonly kind: ClaimKind;
  /** The section and the lines of the document that state the claim. */
  readonly where: string;
  readonly statement: string;
  /** The statement in Chinese (the documents' language), in our own words. */
  readonly zh: string;
  /** The stated number, or two numbers for a range; null if none is stated. */
  readonly documented: number | readonly [number, number] | null;
  /** Unit of `documented`. A change is a percentage of the value before it, and negative if the value falls. */
  readonly unit: string | null;
  /** The circumstances that the document states. */
  readonly given: Readonly<Record<string, unknown>>;
  /** Set if the stated number is a bound. */
  readonly relation?: '>' | '>=' | '<' | 'up to';
  /** The cause of a GPU's memory that the number counts; figures of plans draw the number beside the predicted bytes. */
  readonly cause?: MemoryCause;
}

/**
 * A claim in a file of `claims/`. Expressions use numbers, comparisons, `and`, `or`, `? :`, and names. The names are
 * `documented`, `given.gpus`, `fact.gathers` (of `run`), `plan.name.seconds.value` and `memory.name.peakBytes` (of the file's
 * plans), the names of `let`, `found`, and the functions of `formulas.ts`. In a text, `${x}` shows a value, and `${x #2}` two
 * decimals of it (`expression.ts`).
 */
export interface ClaimRow {
  readonly id: string;
  readonly kind: ClaimKind;
  readonly where: string;
  readonly says: string;
  readonly zh: string;
  readonly documented?: number | readonly [number, number];
  readonly unit?: string;
  readonly relation?: '>' | '>=' | '<' | 'up to';
  readonly cause?: MemoryCause;
  /** Circumstances, or the name of circumstances that several claims share. */
  readonly given?: Claim['given'] | string;
  readonly check: RowCheck;
}

/**
 * How a claim is checked. One of `holds`, `parts`, `onlyIf`, `open` and `judged` gives the verdict; if none of them is set, the
 * numbers are compared.
 */
export interface RowCheck {
  /** Name of the experiment whose facts are used. */
  readonly run?: string;
  /** Values by name; the expression of a value may use the names before it. */
  readonly let?: Readonly<Record<string, string>>;
  /** The number from a formula, a dry run or a prediction; or three expressions: its value, low end and high end. */
  readonly found?: string | readonly [string, string, string];
  /** The number from a run. */
  readonly measured?: string;
  readonly unit?: string;
  /** The share by which the documented number may differ from the found number. Default 0.05. */
  readonly tolerance?: number;
  /** An expression that says whether the sentence is true. */
  readonly holds?: string;
  /** The verdict if the sentence is not true. Default 'off'. */
  readonly else?: 'off' | 'contradicts itself' | 'undefined';
  /** Whether each part of the sentence is true; `part` names the true part. */
  readonly parts?: readonly string[];
  readonly part?: string;
  /** Whether the sentence is true if the condition is met, and whether it is true otherwise. */
  readonly onlyIf?: readonly [string, string];
  readonly condition?: string;
  readonly otherwise?: string;
  /** Whether only a measurement on other hardware can decide. */
  readonly open?: string;
  readonly needs?: string;
  readonly command?: string;
  /**
   * Other readings of the sentence: the condition, in words that can follow 'holds only if', and an expression for the number that
   * is found under this condition, or for whether the sentence is then true.
   */
  readonly readings?: Readonly<Record<string, string>>;
  /** Why the verdict is a judgement on words; the verdict is then `expected.verdict`. */
  readonly judged?: string;
  readonly follows?: string;
  /** How wrong the sentence is. Default: how far the documented number is from the found number. */
  readonly by?: string;
  readonly why: string;
  readonly evidence: EvidenceKind;
  readonly cell: string;
  readonly expected: { readonly verdict: Verdict; readonly value?: number; readonly within?: number };
}

/**
 * A cell of a document's table. A string has the cell's words; '' if the cell is empty. An object names the claim that checks the
 * cell's number, and has the words beside this number (`says`).
 */
export type StatedCell = string | { readonly claim: string; readonly says?: string };

/** A table or list of a document with its rows and columns, in our own words. */
export interface StatedTable {
  readonly title: string;
  readonly where: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly StatedCell[])[];
}

/** A document's file in `claims/`. */
interface DocumentFile {
  readonly title: string;
  /** Requests to the planner by name; a request with `extends` has the other keys of that request. */
  readonly plans: Readonly<Record<string, PlanObject & { readonly extends?: string }>>;
  /** Circumstances by name, which several claims share. */
  readonly given: Readonly<Record<string, Claim['given']>>;
  /** The environment that the document states, in the document's order. */
  readonly environment: readonly StatedPart[];
  readonly tables?: Readonly<Record<string, StatedTable>>;
  readonly claims: readonly ClaimRow[];
}

// the type of a JSON import has no unions; a test checks the keys
const FILES = {
  'wan22-fsdp': wan22,
  'fsdp-guide': guide,
  'wan-deepspeed-zero3': zero3,
  'accelerate-multinode': accelerate,
  'fsdp-megatron-swift': swift,
} as unknown as Readonly<Record<DocumentName, DocumentFile>>;

/** The documents, and the subject of each. */
export const DOCUMENTS: Readonly<Record<DocumentName, string>> = {
  'wan22-fsdp': wan22.title,
  'fsdp-guide': guide.title,
  'wan-deepspeed-zero3': zero3.title,
  'accelerate-multinode': accelerate.title,
  'fsdp-megatron-swift': swift.title,
};

/** Every claim of the documents with its row, in the order of the documents. */
export const CLAIM_ROWS = NAMES.flatMap((document) =>
  FILES[document].claims.map((row) => ({ document, row, claim: statedIn(document, row) })),
);

export type TableName = keyof typeof wan22.tables | keyof typeof guide.tables | keyof typeof swift.tables;

/** The tables of the documents, in their order. */
export const STATED_TABLES = NAMES.flatMap((document) =>
  Object.entries(FILES[document].tables ?? {}).map(([name, table]) => ({ name, document, ...table })),
);

const STATED = new Map(CLAIM_ROWS.map(({ claim }) => [claim.id, claim]));

/** The ids of all claims, in the order of the documents. */
export const CLAIM_IDS: readonly string[] = [...STATED.keys()];

function statedIn(document: DocumentName, row: ClaimRow): Claim {
  const { id, kind, where, says, zh, documented = null, unit = null, relation, cause } = row;
  const circumstances = typeof row.given === 'string' ? FILES[document].given[row.given] : row.given;
  const more = { ...(relation === undefined ? {} : { relation }), ...(cause === undefined ? {} : { cause }) };
  return {
    id,
    document,
    kind,
    where,
    statement: says,
    zh,
    documented,
    unit,
    given: circumstances ?? {},
    ...more,
  };
}

/** Returns the claim with an id. Throws: CHECK if there is none. */
export function claimOf(id: string): Claim {
  const claim = STATED.get(id);
  if (claim !== undefined) return claim;
  throw new ShardlabError('CHECK', `the documents state no '${id}': add it to a file in claims`);
}

/** Returns the number that a claim states. Throws: CHECK if it states none, or a range. */
export function documentedNumber(id: string): number {
  const { documented } = claimOf(id);
  if (typeof documented === 'number') return documented;
  throw new ShardlabError('CHECK', `${id} states ${JSON.stringify(documented)}, not one number`);
}

/** Returns the environment that a document states. */
export function environmentOf(document: DocumentName): readonly StatedPart[] {
  return FILES[document].environment;
}

/** Requests to the planner by name. */
export type Requests = Readonly<Record<string, PlanObject>>;

/** Returns a document's requests. */
export function requestsOf(document: DocumentName): Requests {
  const names = Object.keys(FILES[document].plans);
  return Object.fromEntries(names.map((name) => [name, requestNamed(document, name)]));
}

/** Returns a document's request by its name. Throws: CHECK if there is none. */
export function requestNamed(document: DocumentName, name: string): PlanObject {
  const request = FILES[document].plans[name];
  if (request === undefined) {
    throw new ShardlabError('CHECK', `claims/${document}.json has no plan '${name}': add it to its plans`);
  }
  const { extends: base, ...own } = request;
  return base === undefined ? own : { ...requestNamed(document, base), ...own };
}

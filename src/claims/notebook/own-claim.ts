import { ConfigError, globalSlot } from '../../core';
import { CLAIM_IDS, type Claim, type Requests, type RowCheck } from '../claim';
import type { ClaimEntry } from '../entry';
import { numberOf } from '../finding';
import { PLAN_LAB } from '../plan-lab';
import { entryOfRow } from '../row-entry';

/**
 * A claim of your own. Expressions use the names and functions of the documents' claims (`RowCheck`):
 * `plan.name.seconds.value` for a plan in `plans`, `given.name`, `documented`, `found`.
 */
export interface OwnClaim extends Pick<RowCheck, 'let' | 'found' | 'measured' | 'tolerance' | 'holds'> {
  /** An id that no claim of the documents has, such as 'mine.bubble'. */
  readonly id: string;
  /** The sentence in your own words. */
  readonly says: string;
  /** The number that the sentence states, or two numbers for a range. */
  readonly documented?: Claim['documented'];
  readonly unit?: string;
  /** Numbers for the expressions, such as numbers of your runs. */
  readonly given?: Readonly<Record<string, number>>;
  /** Requests to the planner, in the form that `sl.plan` takes. */
  readonly plans?: Requests;
  /** The reason; `${found}` shows the number. Default: how the number was found. */
  readonly why?: string;
}

const OWN = globalSlot<Map<string, ClaimEntry>>('shardlab.claims');

/** Returns the claims that `sl.claims` registered in this process, which is one notebook's session. */
export function ownClaims(): readonly ClaimEntry[] {
  return [...(OWN.value?.values() ?? [])];
}

/**
 * Registers a claim; it replaces an earlier claim with the same id. Throws: CONFIG if the claim cannot be checked, CHECK if an
 * expression is wrong.
 */
export function registerClaim(own: OwnClaim): ClaimEntry {
  if (CLAIM_IDS.includes(own.id)) {
    throw new ConfigError(`the documents have a claim '${own.id}': choose another id, as 'mine.${own.id}'`);
  }
  const { found, measured, holds } = own;
  const number = measured ?? found;
  if (number === undefined && holds === undefined) {
    throw new ConfigError(
      `'${own.id}' has nothing to check: add the field found, such as found: 'bubble(4, 16)', or the field holds`,
    );
  }
  const { id, says, documented = null, unit = null, given = {}, plans = {} } = own;
  const claim: Claim = {
    id,
    document: 'own',
    kind: 'mechanism',
    where: '',
    statement: says,
    zh: '',
    documented,
    unit,
    given,
  };
  const check = rowCheckOf(own);
  const finding = entryOfRow(claim, check, plans, []).check(PLAN_LAB, {});
  const value = numberOf(finding);
  const expected = { verdict: finding.verdict, ...(value === null ? {} : { value }) };
  const entry = entryOfRow(claim, { ...check, expected }, plans, []);
  OWN.value ??= new Map();
  OWN.value.set(id, entry);
  return entry;
}

function rowCheckOf({ id, unit, why, plans, ...own }: OwnClaim): RowCheck {
  const { let: names, found, measured, tolerance, holds } = own;
  const number = measured ?? found ?? holds ?? '';
  return {
    ...(names === undefined ? {} : { let: names }),
    ...(found === undefined ? {} : { found }),
    ...(measured === undefined ? {} : { measured }),
    ...(tolerance === undefined ? {} : { tolerance }),
    ...(holds === undefined ? {} : { holds }),
    ...(unit === undefined ? {} : { unit }),
    why: why ?? `Found by ${typeof number === 'string' ? number : number[0]}.`,
    evidence: measured !== undefined ? 'run' : plans === undefined ? 'formula' : 'prediction',
    cell: `sl.claims('${id}')`,
    expected: { verdict: 'holds' },
  };
}

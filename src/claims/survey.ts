import { nearest } from '../config';
import { ConfigError, ShardlabError } from '../core';
import { type Claim, type ClaimKind, DOCUMENTS } from './claim';
import type { ClaimEntry, Expectation, Facts } from './entry';
import { type Finding, numberOf, VERDICTS, type Verdict } from './finding';
import type { PlanLab, RunLab } from './lab';

/** The last recorded runs of all experiments. */
export interface RecordedRuns {
  /** Processor of the machine on which the experiments ran. */
  readonly processor: string;
  /** Date of the runs, such as 2026-01-31. */
  readonly date: string;
  /** Facts by experiment. */
  readonly experiments: Readonly<Record<string, Facts>>;
  /** Why the times of these runs are not judged; '' or undefined if they are judged. */
  readonly busy?: string;
}

/** A claim and the result of its check. */
export interface ClaimResult {
  readonly claim: Claim;
  readonly finding: Finding;
  /** Where and when the claim's runs took place; undefined if the claim needs no run. */
  readonly recorded?: Pick<RecordedRuns, 'processor' | 'date'> | undefined;
}

/** Whether a claim's evidence still holds. */
export interface ClaimCheck extends ClaimResult {
  readonly expected: Expectation;
  readonly holds: boolean;
  /** What changed; '' if the evidence still holds, or is not judged. */
  readonly change: string;
  /** Why the claim is not judged: its verdict depends on times, and the machine was busy; '' if it is judged. */
  readonly unjudged: string;
}

/**
 * Selects claims by id; '*' matches any text. Default: all. Throws: CONFIG with the nearest id if a pattern matches none.
 */
export function selectClaims(
  entries: readonly ClaimEntry[],
  patterns: string | readonly string[] = [],
): ClaimEntry[] {
  const wanted = typeof patterns === 'string' ? [patterns] : patterns;
  if (wanted.length === 0) return [...entries];
  const ids = entries.map(({ claim }) => claim.id);
  const chosen = new Set<string>();
  for (const pattern of wanted) {
    const matchingIds = ids.filter((id) => matches(id, pattern));
    if (matchingIds.length === 0) throw unknownClaim(pattern, ids);
    for (const id of matchingIds) chosen.add(id);
  }
  return entries.filter(({ claim }) => chosen.has(claim.id));
}

type OneOrMore<T> = T | readonly T[];

/** Conditions; a selected claim meets all of them. A condition is one value, or a list of values of which one applies. */
export interface ClaimFilter {
  /** Names of claims; '*' matches any text. */
  readonly id?: OneOrMore<string>;
  readonly document?: OneOrMore<Claim['document']>;
  readonly kind?: OneOrMore<ClaimKind>;
  readonly verdict?: OneOrMore<Verdict>;
}

/** Selects claims by a filter. Throws: CONFIG with the known values. */
export function filterClaims(
  entries: readonly ClaimEntry[],
  { id, document, kind, verdict }: ClaimFilter,
  verdictOf: (entry: ClaimEntry) => Verdict,
): ClaimEntry[] {
  const documents = requireKnown('document', document, [...Object.keys(DOCUMENTS), 'own']);
  const kinds = requireKnown('kind', kind, [...new Set(entries.map(({ claim }) => claim.kind))]);
  const verdicts = requireKnown('verdict', verdict, VERDICTS);
  return selectClaims(entries, id).filter(
    (entry) =>
      documents.includes(entry.claim.document) &&
      kinds.includes(entry.claim.kind) &&
      (verdict === undefined || verdicts.includes(verdictOf(entry))),
  );
}

/** Returns the wanted values as a list; by default, all known values. */
function requireKnown(
  field: string,
  wanted: OneOrMore<string> | undefined,
  known: readonly string[],
): readonly string[] {
  const values = wanted === undefined ? known : typeof wanted === 'string' ? [wanted] : wanted;
  for (const value of values) {
    if (known.includes(value)) continue;
    throw new ConfigError(`no claim has the ${field} '${value}'; choose one of ${known.join(', ')}`, {
      [field]: value,
    });
  }
  return values;
}

/** Checks a claim on the last recorded runs. */
export function surveyClaim(entry: ClaimEntry, lab: PlanLab, recorded: RecordedRuns): ClaimResult {
  const { claim, experiment } = entry;
  const finding = entry.check(lab, factsFor(entry, recorded));
  const { processor, date } = recorded;
  return { claim, finding, ...(experiment === undefined ? {} : { recorded: { processor, date } }) };
}

/** Checks claims on the last recorded runs. */
export function surveyClaims(
  entries: readonly ClaimEntry[],
  lab: PlanLab,
  recorded: RecordedRuns,
): ClaimResult[] {
  return entries.map((entry) => surveyClaim(entry, lab, recorded));
}

/** Checks claims on the recorded runs, and compares the findings with the stored expectations. */
export function checkClaims(
  entries: readonly ClaimEntry[],
  lab: PlanLab,
  recorded: RecordedRuns,
): ClaimCheck[] {
  return entries.map((entry) => checkOf(entry, lab, recorded));
}

/**
 * Runs the experiments of these claims, each once, and returns their facts. If other programs want the cores before or after
 * the runs, facts with times are left out, and `busy` says why.
 */
export async function recordRuns(
  entries: readonly ClaimEntry[],
  runs: RunLab,
  progress: (experiment: string, done: number, total: number) => void = () => undefined,
): Promise<Required<Pick<RecordedRuns, 'experiments' | 'busy'>>> {
  const timed = entries.filter(({ isTimed }) => isTimed);
  const busyNow = async (): Promise<string> => (timed.length === 0 ? '' : runs.busy());
  const before = await busyNow();
  const experiments = [...new Set(entries.flatMap(({ experiment }) => experiment ?? []))];
  const facts: Record<string, Facts> = {};
  for (const [done, { name, run }] of experiments.entries()) {
    progress(name, done, experiments.length);
    facts[name] = await run(runs);
  }
  const busy = before || (await busyNow());
  if (busy !== '') for (const { experiment } of timed) delete facts[experiment?.name ?? ''];
  return { experiments: facts, busy };
}

/** Returns the recorded facts of a claim's experiment; none if the claim needs no run. Throws: CHECK if the facts are missing. */
export function factsFor({ claim, experiment }: ClaimEntry, recorded: RecordedRuns): Facts {
  if (experiment === undefined) return {};
  const facts = recorded.experiments[experiment.name];
  if (facts !== undefined) return facts;
  throw new ShardlabError(
    'CHECK',
    `${claim.id} needs the runs '${experiment.name}', which were not recorded; run shardlab claims --record`,
  );
}

function checkOf(entry: ClaimEntry, lab: PlanLab, recorded: RecordedRuns): ClaimCheck {
  const result = surveyClaim(entry, lab, recorded);
  const { busy = '' } = recorded;
  const unjudged = entry.isTimed && busy !== '' ? `not judged: ${busy}` : '';
  const change = unjudged === '' ? changeOf(entry.expected, result.finding) : '';
  return { ...result, expected: entry.expected, holds: change === '', change, unjudged };
}

/** Describes the difference between an expectation and a finding; '' if there is none. */
export function changeOf(expected: Expectation, finding: Finding): string {
  const number = numberOf(finding);
  const changes: string[] = [];
  if (finding.verdict !== expected.verdict) {
    changes.push(`the verdict was '${expected.verdict}' and is now '${finding.verdict}'`);
  }
  if (expected.value !== undefined) {
    const within = expected.within ?? Math.abs(expected.value) * 0.005;
    if (number === null || !(Math.abs(number - expected.value) <= within)) {
      changes.push(
        `the number was ${expected.value} (within ${Number(within.toPrecision(2))}) and is now ${shown(number)}`,
      );
    }
  } else if (number !== null) changes.push(`there was no number, and now there is ${shown(number)}`);
  return changes.join('; ');
}

function shown(value: number | null): string {
  return value === null ? 'gone' : String(Number(value.toPrecision(6)));
}

function matches(id: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(id);
}

function unknownClaim(pattern: string, ids: readonly string[]): ConfigError {
  const close = nearest(pattern, ids);
  const groups = [...new Set(ids.map((id) => `${id.split('.')[0]}.*`))];
  return new ConfigError(
    `no claim is called '${pattern}'${close === undefined ? '.' : `; did you mean '${close}'?`} ` +
      `There are ${groups.join(', ')}`,
    { pattern },
  );
}

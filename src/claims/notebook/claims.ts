import { inspect } from 'node:util';
import { withProgress } from '../../cell';
import { anyText, either, listOf, ofKind, parseOptions, type ShapeOf } from '../../config';
import { ConfigError, DISPLAY, type DisplayBundle, type Shown, shownAsText, withShown } from '../../core';
import {
  counted,
  createTable,
  type DataFrame,
  type Figure,
  saveTable,
  sessionGuesses,
  type Table,
} from '../../figures';
import { DOCUMENTS, type TableName } from '../claim';
import type { ClaimEntry } from '../entry';
import { claimsTable, countVerdicts, documentTitle, verdictText } from '../figures/claim-words';
import { claimsFigure } from '../figures/claims-figure';
import { documentTable, documentTables } from '../figures/document-table';
import type { Evidence } from '../finding';
import { PLAN_LAB } from '../plan-lab';
import { recordedRuns } from '../recorded-runs';
import { CLAIMS } from '../registry';
import {
  type ClaimCheck,
  type ClaimFilter,
  type ClaimResult,
  checkClaims,
  filterClaims,
  recordRuns,
  surveyClaim,
} from '../survey';
import { claimsLab } from './claims-lab';
import { type OwnClaim, ownClaims, registerClaim } from './own-claim';

/** Options of `verify`. */
export interface VerifyOptions {
  /** Whether experiments run again on ranks of this machine; if false, the recorded runs are used. Default true. */
  readonly runs?: boolean;
}

/** The result of checking claims again. A notebook shows it as one line, and one more line for each changed claim. */
export interface Verification extends Shown {
  readonly holds: boolean;
  readonly checks: readonly ClaimCheck[];
  /** The claims whose checks no longer have the stored result. */
  readonly changed: readonly ClaimCheck[];
}

/** The result of each claim on the recorded runs. A result never changes; it takes seconds to compute all results. */
const RESULTS = new WeakMap<ClaimEntry, ClaimResult>();

function resultOf(entry: ClaimEntry): ClaimResult {
  const result = RESULTS.get(entry) ?? surveyClaim(entry, PLAN_LAB, recordedRuns);
  RESULTS.set(entry, result);
  return result;
}

/** The documents' statements, and the results of their checks. A notebook shows them as a table. */
export class Claims implements Iterable<ClaimResult> {
  readonly results: readonly ClaimResult[];
  readonly #entries: readonly ClaimEntry[];

  constructor(entries: readonly ClaimEntry[]) {
    this.#entries = entries;
    this.results = entries.map(resultOf);
  }

  get length(): number {
    return this.results.length;
  }

  [Symbol.iterator](): Iterator<ClaimResult> {
    return this.results[Symbol.iterator]();
  }

  /** Returns the number of claims per document and verdict. */
  counts(): Table {
    const rows = [...Object.keys(DOCUMENTS), 'own'].flatMap((document) => {
      const own = this.results.filter(({ claim }) => claim.document === document);
      return own.length === 0 ? [] : [{ document, claims: own.length, ...countVerdicts(own) }];
    });
    const all = { document: 'all', claims: this.length, ...countVerdicts(this.results) };
    const title = (document: unknown) => (document === 'all' ? 'all' : documentTitle(String(document)));
    const columns = Object.keys(all).map((key) =>
      key === 'document' ? { key, format: title, wraps: true } : { key },
    );
    return createTable([...rows, all], { columns });
  }

  /** The code that shows one claim. Throws: CONFIG unless exactly one claim is chosen. */
  get evidence(): Evidence & Shown {
    const [only, ...others] = this.results;
    if (only === undefined || others.length > 0) {
      throw new ConfigError(
        `evidence belongs to one claim, but ${this.length} are selected; choose one, ` +
          `as sl.claims('${only?.claim.id ?? 'wan.mem.params'}').evidence`,
      );
    }
    const { evidence } = only.finding;
    return withShown({ ...evidence }, shownAsText(evidence.source));
  }

  /** Draws each claim's documented value divided by the found value; the dot's shape and colour show the verdict. */
  figure(): Figure {
    return sessionGuesses().reveal(claimsFigure(this.results));
  }

  /**
   * Returns a table with one row per claim. With `name`, returns the document's table of this name; the cell of a claim has the
   * documented number, the found number and the verdict.
   */
  table(name?: TableName): Table {
    return name === undefined ? claimsTable(this.results) : documentTable(name, this.results);
  }

  /** Lists the names of the documents' tables; `table(name)` returns such a table. */
  tables(): Table {
    return documentTables();
  }

  /** Returns a Markdown table for a report, with one row per claim: documented, found, verdict and reason. */
  toMarkdown(): string {
    return this.#report().toMarkdown();
  }

  /**
   * Writes the claims into a file: all columns of `table()` into a .csv, the columns of a report into a .tex or .md.
   * Throws: CONFIG for another ending, IO if the file cannot be written.
   */
  save(file: string): void {
    const { toCsv } = this.table();
    saveTable(file, {
      toCsv,
      toLatex: () => this.#report().toLatex(),
      toMarkdown: () => this.toMarkdown(),
    });
  }

  /** Returns the columns of a report. */
  #report(): Table {
    const rows = this.table().rows.map(({ id, documented, found, why }, i) => {
      const finding = this.results[i]?.finding;
      const verdict = finding === undefined ? '' : verdictText(finding);
      return {
        claim: String(id),
        documented: documented ?? '',
        found: found ?? '',
        verdict,
        why: why ?? '',
      };
    });
    return createTable(rows, {
      columns: ['claim', 'documented', 'found', 'verdict', 'why'].map((key) => ({ key })),
    });
  }

  /** Returns the table as a danfojs DataFrame; the first call loads danfojs (seconds). */
  frame(): Promise<DataFrame> {
    return this.table().frame();
  }

  /**
   * Checks all claims again; claims whose evidence is a run get a new run on ranks of this machine. Claims that depend on times
   * are not judged if other programs keep the machine busy.
   */
  async verify({ runs = true }: VerifyOptions = {}): Promise<Verification> {
    const needsRuns = this.#entries.some(({ experiment }) => experiment !== undefined);
    if (!runs || !needsRuns) return verification(checkClaims(this.#entries, PLAN_LAB, recordedRuns));
    const lab = claimsLab();
    try {
      const { experiments, busy } = await withProgress('checking claims', 'experiments', (show) =>
        recordRuns(this.#entries, lab, (name, done, total) => show(done, total, name)),
      );
      const all = { ...recordedRuns.experiments, ...experiments };
      return verification(checkClaims(this.#entries, PLAN_LAB, { ...recordedRuns, experiments: all, busy }));
    } finally {
      await lab.close();
    }
  }

  [DISPLAY](): DisplayBundle {
    return this.table()[DISPLAY]();
  }

  /** Returns the text that Node shows for the claims. */
  [inspect.custom](): string {
    return this.table().toText();
  }
}

/**
 * Returns the documents' claims, or the claims that patterns ('wan.mem.*') or conditions name. A claim of your own, an object with
 * `says`, is checked and registered, so that later calls find it by its id. Throws: CONFIG with the nearest id, or the known values
 * of a condition, and for a claim of your own that has nothing to check or the id of a document's claim; CHECK for a wrong expression.
 * @example
 * sl.claims('wan.mem.*');
 * sl.claims('wan.mem.params').evidence;
 * sl.claims({ document: 'fsdp-guide', kind: 'memory', verdict: ['off', 'contradicts itself'] });
 * sl.claims().table('memory');
 * sl.claims({ id: 'mine.bubble', says: 'A bubble of 10% with 16 microbatches on 4 stages', documented: 10, unit: '%', found: 'bubble(4, 16)' });
 */
export function claims(choice?: string | readonly string[] | ClaimFilter): Claims;
export function claims(own: OwnClaim): Claims;
export function claims(choice: string | readonly string[] | ClaimFilter | OwnClaim = {}): Claims {
  if (isOwnClaim(choice)) return new Claims([registerClaim(choice)]);
  const filter = filterOf(choice);
  const isNamed = (filter.id ?? '').length > 0 || filter.document !== undefined;
  const entries = isNamed ? [...CLAIMS, ...ownClaims()] : CLAIMS;
  return new Claims(filterClaims(entries, filter, (entry) => resultOf(entry).finding.verdict));
}

function isOwnClaim(choice: object | string): choice is OwnClaim {
  return typeof choice === 'object' && choice !== null && 'says' in choice;
}

const NAMES = either(anyText, listOf(anyText));

/** `filterClaims` checks which names there are. */
const FILTER = {
  id: ofKind<NonNullable<ClaimFilter['id']>>(NAMES),
  document: ofKind<NonNullable<ClaimFilter['document']>>(NAMES),
  kind: ofKind<NonNullable<ClaimFilter['kind']>>(NAMES),
  verdict: ofKind<NonNullable<ClaimFilter['verdict']>>(NAMES),
} satisfies ShapeOf<ClaimFilter>;

function filterOf(choice: string | readonly string[] | ClaimFilter): ClaimFilter {
  if (typeof choice === 'string' || Array.isArray(choice))
    return { id: choice as string | readonly string[] };
  return parseOptions('sl.claims', choice as ClaimFilter, FILTER);
}

function verification(checks: readonly ClaimCheck[]): Verification {
  const changed = checks.filter(({ holds }) => !holds);
  const unjudged = checks.filter((check) => check.unjudged !== '');
  const judged = checks.length - unjudged.length;
  const head =
    changed.length > 0
      ? `The evidence of ${changed.length} of ${counted(judged, 'claim')} no longer holds`
      : `${judged === 1 ? "This claim's" : `The ${judged} claims'`} evidence still holds`;
  const text = [
    ...(judged === 0 ? [] : [head]),
    ...changed.map(({ claim, change }) => `${claim.id}: ${change}`),
    ...unjudged.map((check) => `${check.claim.id}: ${check.unjudged}`),
  ].join('\n');
  return withShown({ holds: changed.length === 0, checks, changed }, shownAsText(text));
}

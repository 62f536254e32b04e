import { ConfigError } from '../../core';
import { createTable, type Table } from '../../figures';
import { STATED_TABLES, type StatedCell } from '../claim';
import type { ClaimResult } from '../survey';
import { documentedText, foundText, plainText } from './claim-words';

/**
 * Makes a document's table with the document's own rows and columns. The cell of a claim has the documented number, the found
 * number, and the verdict; column 'reading' says under which reading the document is right. The cell of a claim that is not among the results is empty. Throws: CONFIG for an unknown name, or
 * if no result is in the table.
 */
export function documentTable(name: string, results: readonly ClaimResult[]): Table {
  const stated = statedTable(name);
  const { title, document, where, columns } = stated;
  const resultOf = (cell: StatedCell): ClaimResult | undefined =>
    typeof cell === 'string' ? undefined : results.find(({ claim }) => claim.id === cell.claim);
  const rows = stated.rows.map((cells) => ({
    ...Object.fromEntries(cells.map((cell, i) => [columns[i], cellText(cell, resultOf(cell))])),
    reading: readingsText(cells.flatMap((cell) => resultOf(cell) ?? [])),
    claims: cells.flatMap((cell) => resultOf(cell)?.claim.id ?? []).join(', '),
  }));
  if (rows.every(({ claims }) => claims === '')) {
    throw new ConfigError(`none of these claims is in the table '${name}' of ${document}`, { name });
  }
  const isJudged = stated.rows.flat().some((cell) => resultOf(cell)?.finding.judged !== undefined);
  return createTable(rows, {
    title: `${title} (${document}, ${where}): documented → found, verdict${isJudged ? '; *: judged on words' : ''}`,
    columns: [...columns, 'reading', 'claims'].map((key) => ({ key, wraps: true })),
  });
}

/** Says under which readings a row's claims are right; with several claims, each after its id. */
function readingsText(results: readonly ClaimResult[]): string {
  const read = results.filter(({ finding }) => finding.reading !== '');
  const isOnly = results.length === 1;
  return read.map(({ claim, finding }) => `${isOnly ? '' : `${claim.id} `}${finding.reading}`).join('; ');
}

/** Returns the ids of the claims in a document's table. Throws: CONFIG for an unknown name. */
export function claimsOfTable(name: string): ReadonlySet<string> {
  return new Set(statedTable(name).rows.flatMap(claimIdsOf));
}

function claimIdsOf(cells: readonly StatedCell[]): readonly string[] {
  return cells.flatMap((cell) => (typeof cell === 'string' ? [] : [cell.claim]));
}

function statedTable(name: string): (typeof STATED_TABLES)[number] {
  const stated = STATED_TABLES.find((table) => table.name === name);
  if (stated !== undefined) return stated;
  const names = STATED_TABLES.map((table) => table.name).join(', ');
  throw new ConfigError(`no document has a table '${name}'; choose one of ${names}`, { name });
}

function cellText(cell: StatedCell, result: ClaimResult | undefined): string {
  if (typeof cell === 'string') return cell;
  if (result === undefined) return '';
  const { verdict, judged } = result.finding;
  const documented = [cell.says ?? '', documentedText(result.claim)].filter((text) => text !== '').join(': ');
  const numbers = [documented, foundText(result.finding)].filter((text) => text !== '').join(' → ');
  const word = verdict === 'holds only if' ? 'holds under a condition' : verdict;
  return plainText(`${numbers}, ${word}${judged === undefined ? '' : '*'}`);
}

/** Lists the documents' tables: one row per table, with its number of claims. */
export function documentTables(): Table {
  const rows = STATED_TABLES.map(({ name, document, where, title, rows: lines }) => ({
    name,
    document,
    where,
    claims: lines.flatMap(claimIdsOf).length,
    title,
  }));
  return createTable(rows, { title: `${rows.length} tables of the documents` });
}

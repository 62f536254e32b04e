import { DOCUMENTS, type DocumentName, environmentOf, type StatedPart } from '../../claims';
import { nearest } from '../../config';
import { ConfigError } from '../../core';
import { wrapped } from '../../programs';
import type { Io, Output } from '../io';
import { type Measured, measureAll } from './document-probes';

/** A part of a document's environment, and what this machine has of it. */
type Row = StatedPart & Measured;

/** `shardlab doctor --document ID`: shows a document's environment, part by part. Throws: CONFIG for an unknown id. */
export async function answerDocument(id: string, io: Pick<Io, 'env' | 'cwd'>, output: Output): Promise<void> {
  const name = documentNamed(id);
  const parts = environmentOf(name);
  const measured = await measureAll(
    parts.map(({ probe }) => probe),
    io,
  );
  // `measureAll` returns one result per probe.
  const rows = parts.map((part, index): Row => ({ ...part, ...(measured[index] as Measured) }));
  output.answer({ document: name, title: DOCUMENTS[name], parts: rows.map(asJson) }, () =>
    asText(name, rows),
  );
}

/** `shardlab doctor --document`: lists the documents. */
export function answerDocuments(output: Output): void {
  const documents = Object.entries(DOCUMENTS).map(([id, title]) => ({
    id,
    title,
    // The keys of `DOCUMENTS` are the names in its type.
    parts: environmentOf(id as DocumentName).length,
  }));
  const width = Math.max(...documents.map(({ id }) => id.length));
  output.answer({ documents }, () =>
    [
      ...documents.map(({ id, title, parts }) => `${id.padEnd(width)}  ${title} (${parts} parts)`),
      'shardlab doctor --document ID shows the environment of one document',
    ].join('\n'),
  );
}

function asJson({ item, section, stated, here, isPresent, needed, why, claim }: Row) {
  return { item, section, stated, here, isPresent, needed, why, claim: claim ?? null };
}

/** The widest line and the longest cell, in characters. */
const WIDTH = 110;
const LONGEST = 42;
const MARKS = { present: '✓', missing: '✗', unneeded: '·' } as const;

function asText(name: DocumentName, rows: readonly Row[]): string {
  const header = ['', 'stated', 'here', 'needed for'];
  const cells = rows.map(({ item, stated, here, needed }) =>
    [item, stated, here, usesText(needed)].map(shortened),
  );
  const widths = [0, 1, 2].map((column) =>
    Math.max(...[header, ...cells].map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  const missing = rows.filter((row) => markOf(row) === MARKS.missing).length;
  return [
    `${name}: ${DOCUMENTS[name]}`,
    `${rows.length} parts, each with its reason; ${MARKS.present} needed and here, ${MARKS.missing} needed and not here (${missing}), ${MARKS.unneeded} not needed`,
    '',
    `  ${line(header)}`,
    ...rows.flatMap((row, index) => [
      `${markOf(row)} ${line(cells[index] ?? [])}`,
      ...wrapped(whyText(row), WIDTH).map((text) => `    ${text}`),
    ]),
  ].join('\n');
}

/** Returns a cell's text, shortened if it is too long; --json has the whole text. */
function shortened(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

function markOf({ needed, isPresent }: Row): string {
  if (needed.length === 0) return MARKS.unneeded;
  return isPresent ? MARKS.present : MARKS.missing;
}

function usesText(needed: StatedPart['needed']): string {
  return needed.length === 0 ? 'nothing' : needed.join(', ');
}

function whyText({ section, why, claim }: Row): string {
  return `${why} [${section}${claim === undefined ? '' : `; shardlab claims ${claim}`}]`;
}

/** Returns the document with an id. Throws: CONFIG with the nearest id if there is none. */
function documentNamed(id: string): DocumentName {
  const names = Object.keys(DOCUMENTS) as DocumentName[]; // the keys are the names in the type
  const documentName = names.find((name) => name === id);
  if (documentName !== undefined) return documentName;
  const close = nearest(id, names) ?? names.find((name) => id !== '' && name.includes(id.toLowerCase()));
  throw new ConfigError(
    `no document is called '${id}'${close === undefined ? '.' : `; did you mean '${close}'?`} There are ${names.join(', ')}`,
    { id },
  );
}

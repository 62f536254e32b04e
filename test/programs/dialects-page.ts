import { dialects } from '../../src/programs/registry/registry';
import type { KeyRow, KeyTable } from '../../src/programs/rows/key-row';

// The generated part of docs/dialects.md: the keys of every dialect, by what they do.

const START = '<!-- keys: `npm run golden` writes it -->\n';
const END = '<!-- end of keys -->';

interface Installed {
  readonly versions?: Readonly<Record<string, string>>;
  readonly keys: Readonly<Record<string, readonly string[]>>;
}

/** Keys of packages with their defaults; null: no literal, or none. */
export interface SourceKeys {
  readonly versions: Readonly<Record<string, string>>;
  readonly keys: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** The page with its generated part replaced by the tables of dialects. */
export function dialectsPage(page: string, installed: Installed, sources: SourceKeys): string {
  const [before, rest] = split(page, START);
  const [, after] = split(rest, END);
  const versions = Object.entries({ ...installed.versions, ...sources.versions }).map(([name, version]) =>
    name === 'Megatron-LM' ? `Megatron-LM at commit ${version}` : `${name} ${version}`,
  );
  const counts = [
    ...Object.entries(installed.keys).map(([name, keys]) => `${keys.length} of ${name}`),
    ...Object.entries(sources.keys).map(([name, keys]) => `${Object.keys(keys).length} of ${name}`),
  ];
  const lines = [
    `Compared with ${versions.join(', ')}: ${counts.join(', ')}; every one of these keys has a row.`,
    ...dialects().flatMap(({ name, keys }) => [
      '',
      `### ${name[0]?.toUpperCase()}${name.slice(1)}`,
      '',
      '| key | effect | what it is here, or why |',
      '|---|---|---|',
      ...rowsOf(keys),
      ...exportedLines(keys),
    ]),
  ];
  return `${before}${START}${lines.join('\n')}\n${END}${after}`;
}

/** Names the keys that exports write. */
function exportedLines(table: KeyTable): readonly string[] {
  const written = flat(table).filter(([, { write }]) => write !== undefined);
  return written.length === 0
    ? []
    : ['', `Exports write ${written.map(([key]) => `\`${key}\``).join(', ')}.`];
}

/** Rows with the same effect and reason are one row of the page. */
function rowsOf(table: KeyTable): readonly string[] {
  const byReason = new Map<string, { readonly row: KeyRow; readonly keys: string[] }>();
  for (const [key, row] of flat(table)) {
    const id = `${row.effect}|${row.says}`;
    const found = byReason.get(id);
    if (found === undefined) byReason.set(id, { row, keys: [key] });
    else found.keys.push(key);
  }
  return [...byReason.values()].map(({ row, keys }) => {
    const says = row.effect === null ? `\`${row.says}\`` : row.says;
    const cells = [keys.map((key) => `\`${key}\``).join(', '), row.effect ?? 'used', says];
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  });
}

function flat(table: KeyTable, base = ''): readonly (readonly [string, KeyRow])[] {
  return Object.entries(table).flatMap(([key, row]) =>
    row.parts === undefined ? [[`${base}${key}`, row] as const] : flat(row.parts, `${base}${key}.`),
  );
}

function split(text: string, at: string): readonly [string, string] {
  const index = text.indexOf(at);
  if (index < 0) throw new Error(`docs/dialects.md has no line "${at.trim()}"`);
  return [text.slice(0, index), text.slice(index + at.length)];
}

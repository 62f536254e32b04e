import { dialects } from '../../src/programs/registry/registry';
import type { KeyRow, KeyTable } from '../../src/programs/rows/key-row';
import type { Dialect } from '../../src/programs/rows/meant';

// The pages of docs/reference/programs: a page per program with its keys by what they do, and the list of pages in index.md.

const START = '<!-- programs: `npm run golden` writes it -->\n';
const END = '<!-- end of programs -->';

interface Installed {
  readonly versions?: Readonly<Record<string, string>>;
  readonly keys: Readonly<Record<string, readonly string[]>>;
}

/** Keys of packages with their defaults; null: no literal, or none. */
export interface SourceKeys {
  readonly versions: Readonly<Record<string, string>>;
  readonly keys: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Settings that belong to a program of another name. */
const OF_PROGRAM: Readonly<Record<string, string>> = { 'megatron sft': 'swift' };

/** The pages by their file's name; a page has all settings of one program. */
export function programPages(): ReadonlyMap<string, string> {
  return new Map([...byFile()].map(([file, parts]) => [file, pageOf(parts)]));
}

/** The index with its generated part replaced by the list of pages. */
export function programsIndex(page: string, installed: Installed, sources: SourceKeys): string {
  const [before, rest] = split(page, START);
  const [, after] = split(rest, END);
  const versions = Object.entries({ ...installed.versions, ...sources.versions }).map(([name, version]) =>
    name === 'Megatron-LM' ? `Megatron-LM at commit ${version}` : `${name} ${version}`,
  );
  const counts = new Map([
    ...Object.entries(installed.keys).map(([name, keys]) => [name, keys.length] as const),
    ...Object.entries(sources.keys).map(([name, keys]) => [name, Object.keys(keys).length] as const),
  ]);
  const rows = [...byFile()].map(([file, parts]) => {
    const compared = parts.flatMap(({ name }) =>
      counts.has(name) ? [`${counts.get(name)} of ${name}`] : [],
    );
    return `| [${titled(parts)}](${file}) | ${compared.join(', ') || 'not compared'} |`;
  });
  const lines = [
    '| program | keys that its own source has; all are known here |',
    '|---|---|',
    ...rows,
    '',
    `Compared with ${versions.join(', ')}.`,
  ];
  return `${before}${START}${lines.join('\n')}\n${END}${after}`;
}

function byFile(): ReadonlyMap<string, readonly Dialect[]> {
  const pages = new Map<string, Dialect[]>();
  for (const dialect of dialects()) {
    const file = `${fileName(dialect.name)}.md`;
    pages.set(file, [...(pages.get(file) ?? []), dialect]);
  }
  return pages;
}

/** Settings with the same first word are of the same program: `transformers' fsdp_config` of transformers. */
function fileName(name: string): string {
  const [first = ''] = (OF_PROGRAM[name] ?? name).toLowerCase().replace(/^the /, '').split(' ');
  return first.replace(/'s?$|[\d.]+$/g, '');
}

function titled([first]: readonly Dialect[]): string {
  return (first?.name ?? '').replace(/^the /, 'The ');
}

function pageOf(parts: readonly Dialect[]): string {
  const lines = [
    `# ${titled(parts)}`,
    '',
    `What \`shardlab read\` says of each key ([effects](index.md#effects)). A key that is a setting has the setting's path ([settings](../settings.md)).`,
    ...parts.flatMap(({ name, keys }) => [
      '',
      ...(parts.length === 1 ? [] : [`## ${name}`, '']),
      '| key | effect | what it is here, or why |',
      '|---|---|---|',
      ...rowsOf(keys),
      ...exportedLines(keys),
    ]),
  ];
  return `${lines.join('\n')}\n`;
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
  if (index < 0) throw new Error(`docs/reference/programs/index.md has no line "${at.trim()}"`);
  return [text.slice(0, index), text.slice(index + at.length)];
}

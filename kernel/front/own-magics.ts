import { type MagicsThatRun, magicLines } from '../compiler/magic-table';
import type { DeclaredName } from '../compiler/protocol';
import type { CompilerClient } from './compiler-client';
import type { History } from './history';

type Own = MagicsThatRun<'front'>;

/** What the magics print that the front performs alone. */
export interface OwnMagics {
  readonly compiler: CompilerClient;
  readonly history: History;
}

type Print = (parts: OwnMagics, options: string) => string | Promise<string>;

const PRINTS: Readonly<Record<Own, Print>> = {
  lsmagic: () => magicLines().join('\n'),
  who: async ({ compiler }, options) => {
    const names = await compiler.call('names', namespaceOf(options));
    return names.length === 0 ? 'No cell has declared a name.' : names.map(({ name }) => name).join('   ');
  },
  whos: async ({ compiler }, options) => table(await compiler.call('names', namespaceOf(options))),
  history: ({ history }, options) => printedHistory(history, options),
};

/** Returns the text that a magic of the front prints. */
export async function printedBy(name: Own, options: string, parts: OwnMagics): Promise<string> {
  return `${await PRINTS[name](parts, options)}\n`;
}

function namespaceOf(options: string): 'notebook' | 'ranks' {
  return options === 'ranks' ? 'ranks' : 'notebook';
}

/** A table as `%whos` of IPython prints it. */
function table(names: readonly DeclaredName[]): string {
  if (names.length === 0) return 'No cell has declared a name.';
  const rows = names.map(({ name, type, cell }) => [name, `In[${cell}]`, type]);
  const lines = [['Name', 'Cell', 'Type'], ...rows];
  const width = (column: number): number => Math.max(...lines.map((row) => row[column]?.length ?? 0));
  const widths = [width(0), width(1)];
  const texts = lines.map((row) =>
    row
      .map((text, i) => text.padEnd(widths[i] ?? 0))
      .join('   ')
      .trimEnd(),
  );
  return [texts[0], '-'.repeat(texts[0]?.length ?? 0), ...texts.slice(1)].join('\n');
}

async function printedHistory(history: History, options: string): Promise<string> {
  const count = /(?:^|\s)-l\s*(\d+)/.exec(options)?.[1];
  const entries = count === undefined ? history.ofThisSession : await history.newest(Number(count));
  const isNumbered = /(?:^|\s)-n(?=\s|$)/.test(options);
  return entries
    .map(([session, line, source]) => {
      const number = session === 0 ? `${line}` : `${session}/${line}`;
      return isNumbered ? `${number.padStart(4)}: ${source}` : source;
    })
    .join('\n');
}

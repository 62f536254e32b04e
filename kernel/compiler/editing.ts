import ts from 'typescript';
import type { CheckedFiles } from './language-service';
import type { Completions, Inspection } from './protocol';

/** A source in a file of the language service; the prelude comes before the source. */
export interface ShownSource {
  readonly path: string;
  readonly source: string;
  /** Length of the prelude in UTF-16 units. */
  readonly shift: number;
}

const WORD = /[\w$]/;

/** Returns the completions at the cursor. A member whose docstring has the tag @internal is typed, but it is not offered. */
export function completionsAt({ service }: CheckedFiles, shown: ShownSource, offset: number): Completions {
  const { source, path, shift } = shown;
  const start = wordStart(source, offset);
  const word = source.slice(start, offset);
  const info = service.getCompletionsAtPosition(path, shift + offset, { includeSymbol: true });
  const entries = (info?.entries ?? [])
    .filter(({ name }) => name.startsWith(word) && !name.startsWith('__cell'))
    .filter(({ symbol }) => !info?.isMemberCompletion || !isInternal(symbol))
    .sort((a, b) => (a.sortText + a.name < b.sortText + b.name ? -1 : 1));
  return {
    matches: entries.map(({ name }) => name),
    kinds: entries.map(({ kind }) => kind),
    start,
    end: offset,
  };
}

function isInternal(symbol: ts.Symbol | undefined): boolean {
  return symbol?.getJsDocTags(undefined).some(({ name }) => name === 'internal') ?? false;
}

/** Returns the declaration and documentation of the name at the cursor. */
export function inspectionAt(
  { service }: CheckedFiles,
  shown: ShownSource,
  offset: number,
): Inspection | undefined {
  const { source, path, shift } = shown;
  const at = Math.min(wordStart(source, offset), Math.max(0, source.length - 1));
  const info = service.getQuickInfoAtPosition(path, shift + at);
  if (info === undefined) return undefined;
  // A type that the cell cannot name has its file before it: import("…/module").Module.
  const declaration = ts.displayPartsToString(info.displayParts).replace(/import\("[^"]*"\)\./g, '');
  // The checker describes an unknown name as `any`.
  if (declaration === 'any') return undefined;
  const documentation = ts.displayPartsToString(info.documentation);
  const tags = (info.tags ?? []).map(({ name, text }) => ({ name, words: ts.displayPartsToString(text) }));
  const written = (code: (text: string) => string): string => {
    const lines = tags.map(({ name, words }) =>
      name === 'example' ? `Example:\n\n${code(words)}` : `@${name} ${words}`,
    );
    return [code(declaration), documentation, ...lines].filter((part) => part !== '').join('\n\n');
  };
  return {
    text: written((code) => code),
    markdown: written((code) => `\`\`\`typescript\n${code}\n\`\`\``),
  };
}

function wordStart(source: string, offset: number): number {
  let start = Math.min(offset, source.length);
  while (start > 0 && WORD.test(source[start - 1] ?? '')) start--;
  return start;
}

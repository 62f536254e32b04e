import { reproduce } from '../../src/claims/notebook/reproduce';
import { PUBLISHED_NAMES, sourceOf } from '../../src/planner/measured/published-tables';

// The generated parts of docs/reference/reproduce.md, each between two comments that name it.

/** The page with its generated parts replaced by today's predictions. */
export function reproducePage(page: string): string {
  return Object.entries(PARTS).reduce((text, [name, lines]) => {
    const [start, end] = [`<!-- ${name}: \`npm run golden\` writes it -->\n`, `<!-- end of ${name} -->`];
    const [before, rest] = split(text, start);
    const [, after] = split(rest, end);
    return `${before}${start}${lines().trimEnd()}\n${end}${after}`;
  }, page);
}

const PARTS: Readonly<Record<string, () => string>> = {
  tables: () => reproduce().table.toMarkdown(),
  sources: () =>
    PUBLISHED_NAMES.map((name) => {
      const { title, source, where, address, date, settings, fit } = sourceOf(name);
      return `### ${name}\n\n${title}: [${source}](${address}), ${where} (${date}).\n\n${settings}\n\n${fit}`;
    }).join('\n\n'),
};

function split(text: string, at: string): readonly [string, string] {
  const index = text.indexOf(at);
  if (index < 0) throw new Error(`docs/reference/reproduce.md has no line "${at.trim()}"`);
  return [text.slice(0, index), text.slice(index + at.length)];
}

import type { Reading, ReadLine } from './rows/reading';

/** Width of a line of the table's last column, in characters. */
const WIDTH = 90;

/** Returns a reading as a table with a row per line, and its config below. */
export function readingText({ world, machines, config, lines }: Reading): string {
  return [linesText(lines), '', placeText(world, machines), `config: ${JSON.stringify(config)}`].join('\n');
}

/** Returns lines as a table: where, key, value, effect, why. */
export function linesText(lines: readonly ReadLine[]): string {
  const cells = lines.map(({ file, line, key, value, effect, why }) => [
    `${file}:${line}`,
    key,
    valueText(value),
    effect,
    why,
  ]);
  const widths = [0, 1, 2, 3].map((column) => Math.max(...cells.map((row) => row[column]?.length ?? 0), 0));
  return cells
    .flatMap((row) => {
      const [first = '', ...more] = wrapped(row[4] ?? '', WIDTH);
      const start = row
        .slice(0, 4)
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ');
      const indent = ' '.repeat(start.length);
      return [`${start}  ${first}`.trimEnd(), ...more.map((text) => `${indent}  ${text}`)];
    })
    .join('\n');
}

/** The number of characters of the longest value that a table shows. */
const LONGEST = 32;

function valueText(value: unknown): string {
  const text = typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

function placeText(world: number | null, machines: number | null): string {
  if (world === null) return 'no line says the number of ranks';
  return `${world} ${world === 1 ? 'rank' : 'ranks'}${machines === null ? '' : ` on ${machines} ${machines === 1 ? 'machine' : 'machines'}`}`;
}

/** Returns a text in lines of at most `width` characters; a longer word has its own line. */
export function wrapped(text: string, width: number): readonly string[] {
  const done: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = done.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) done.push(word);
    else done.splice(-1, 1, `${last} ${word}`);
  }
  return done;
}

/** An English text with holes for values, and its translation. */
export interface MessagePattern {
  /** The texts before, between and after the holes: one more than there are holes. */
  readonly texts: readonly [string, ...string[]];
  /** The translation, with {0}, {1}, … for the values of the holes. */
  readonly chinese: string;
  /** The number of characters outside of holes. A message can fit several patterns; the one with the most describes it best. */
  readonly size: number;
}

const HOLE = /\{\d+\}/;
/** The rank before a message; other code replaces it by several ranks, so patterns have no rank. */
const RANK = /^\[rank \{\d\}(?:\/\{\d\})?\] /;

/** Makes a pattern of an entry of a table. The holes of the English text are numbered from 0 in their order. */
export function messagePattern(english: string, chinese: string): MessagePattern {
  const [rank = ''] = RANK.exec(english) ?? [];
  const numRanks = rank.split(HOLE).length - 1;
  const [first = '', ...rest] = english.slice(rank.length).split(HOLE);
  return {
    texts: [first, ...rest],
    chinese: chinese
      .slice(rank.length)
      .replaceAll(/\{(\d+)\}/g, (_, number: string) => `{${Number(number) - numRanks}}`),
    size: first.length + rest.join('').length,
  };
}

/** What may follow a pattern in a longer message: the next sentence, advice, or a remark in parentheses. */
const AFTER = /^(?:$|\s|; )/;

/**
 * Returns the values of a pattern's holes in a line that begins as the pattern does; undefined if the line does not. With `whole`, the
 * pattern must describe all of the line.
 */
export function valuesOf({ texts }: MessagePattern, line: string, whole: boolean): string[] | undefined {
  const [first, ...rest] = texts;
  if (!line.startsWith(first)) return undefined;
  const last = rest.pop();
  let at = first.length;
  if (last === undefined) return isEnd(line, at, whole) ? [] : undefined;
  const values: string[] = [];
  for (const [i, text] of rest.entries()) {
    const next = text === '' ? endOfJoined(line, at, rest[i + 1] ?? last) : line.indexOf(text, at);
    if (next < 0) return undefined;
    values.push(line.slice(at, next));
    at = next + text.length;
  }
  const end = endOf(line, last, at, whole);
  return end === undefined ? undefined : [...values, line.slice(at, end)];
}

/** Returns where the first of two joined values ends: the second one begins with '; ', or is empty. */
function endOfJoined(line: string, at: number, following: string): number {
  const end = following === '' ? line.length : line.indexOf(following, at);
  const next = line.indexOf('; ', at + 1);
  return next >= 0 && next < end ? next : end;
}

/** Returns where a pattern's last text begins in the line, from `start` on. */
function endOf(line: string, last: string, start: number, whole: boolean): number | undefined {
  if (last === '') return line.length;
  for (let at = line.indexOf(last, start); at >= 0; at = line.indexOf(last, at + 1)) {
    if (isEnd(line, at + last.length, whole)) return at;
  }
  return undefined;
}

function isEnd(line: string, at: number, whole: boolean): boolean {
  return whole ? at === line.length : AFTER.test(line.slice(at, at + 2));
}

/** Returns a translation with the values in its holes. */
export function filled(chinese: string, values: readonly string[]): string {
  return chinese.replaceAll(/( ?)\{(\d+)\}( ?)/g, (_, before: string, number: string, after: string) => {
    const value = values[Number(number)] ?? '';
    return `${/^$|^[,;.]/.test(value) || STARTS_CHINESE.test(value) ? '' : before}${value}${ENDS_CHINESE.test(value) ? '' : after}`;
  });
}

/** Chinese text has no spaces between its own characters, only beside Latin letters and digits. */
const STARTS_CHINESE = /^[\p{Script=Han}，。；：？、（）]/u;
const ENDS_CHINESE = /[\p{Script=Han}，。；：？、（）]$/u;

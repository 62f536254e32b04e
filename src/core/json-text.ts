/** Files that programs write have few levels. Recursive code that reads a value of many levels overflows the stack. */
const MOST_LEVELS = 100;

/** Parses JSON of others. Throws: SyntaxError for a text that is not JSON, or that is nested deeper than any file that is read here. */
export function parseJson(text: string): unknown {
  requireFlat(text);
  return JSON.parse(text);
}

const [QUOTE, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];

function requireFlat(text: string): void {
  let levels = 0;
  for (let i = 0; i < text.length; i++) {
    const letter = text.charCodeAt(i);
    if (letter === QUOTE) i = endOfString(text, i);
    else if (letter === OPEN || letter === OPEN_LIST) levels++;
    else if (letter === CLOSE || letter === CLOSE_LIST) levels--;
    if (levels > MOST_LEVELS) throw new SyntaxError(`more than ${MOST_LEVELS} levels of brackets`);
  }
}

/** Returns the index of the quote that ends the string that begins at `start`; without such a quote, the end of the text. */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end >= 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first--;
  return (at - first) % 2 === 1;
}

import type { MimeBundle } from './mime';

/** The largest number of characters that are shown of one text: a value, an error, or a rank's prints. */
export const LONGEST_TEXT = 200_000;
/** The largest number of characters that are shown of a notebook cell's prints, because a browser stores all of them. */
export const LONGEST_STREAM = 1_000_000;
/** The largest picture, page or data that a display shows, in characters; such a part cannot be shortened. */
const LARGEST_PART = 10_000_000;

const ADVICE =
  "to see the whole output, write it to a file, for example fs.writeFileSync('output.txt', text)";

/** Returns the line that replaces omitted characters. */
export function omission(numOmitted: number): string {
  return `\n… ${numOmitted.toLocaleString('en-US')} characters are left out here; ${ADVICE} …\n`;
}

/** Returns a text; if it has more than `longest` characters, only its beginning and its end. */
export function shortened(text: string, longest = LONGEST_TEXT): string {
  if (text.length <= longest) return text;
  const half = longest / 2;
  return text.slice(0, half) + omission(text.length - longest) + text.slice(-half);
}

/** Returns a bundle that a browser can show: long text is shortened, and a notice replaces a part that is too large. */
export function shortenedBundle(bundle: MimeBundle): MimeBundle {
  const parts = Object.entries(bundle).map(([type, value]) => ({ type, value, size: sizeOf(value) }));
  const notices = parts
    .filter(({ type, size }) => type !== 'text/plain' && size > LARGEST_PART)
    .map(({ type, size }) => `${type} of ${size.toLocaleString('en-US')} characters is not shown; ${ADVICE}`);
  if (notices.length === 0 && sizeOf(bundle['text/plain']) <= LONGEST_TEXT) return bundle;
  const kept = parts.filter(({ type, size }) => type !== 'text/plain' && size <= LARGEST_PART);
  const text = bundle['text/plain'] === undefined ? [] : [shortened(String(bundle['text/plain']))];
  return {
    ...Object.fromEntries(kept.map(({ type, value }) => [type, value])),
    'text/plain': [...text, ...notices].join('\n'),
  };
}

function sizeOf(value: unknown): number {
  if (value === undefined) return 0;
  return typeof value === 'string' ? value.length : (JSON.stringify(value) ?? '').length;
}

/** Shortens a text that arrives in pieces: shows its beginning at once, and its end when the text ends. */
export class Excerpt {
  readonly #head: number;
  readonly #tail: number;
  #numShown = 0;
  #numHeld = 0;
  #held = '';

  constructor(longest = LONGEST_STREAM) {
    this.#tail = Math.floor(longest / 10);
    this.#head = longest - this.#tail;
  }

  /** Adds the next piece; returns the text to show now. */
  add(text: string): string {
    const now = text.slice(0, this.#head - this.#numShown);
    this.#numShown += now.length;
    const later = text.slice(now.length);
    if (later === '') return now;
    const wasWhole = this.#numHeld <= this.#tail;
    this.#numHeld += later.length;
    this.#held += later;
    // Shortening the text at every piece would copy all held text each time.
    if (this.#held.length > 4 * this.#tail) this.#held = this.#held.slice(-this.#tail);
    return wasWhole && this.#numHeld > this.#tail ? now + this.#warning() : now;
  }

  /** Returns the held text, after a line with the number of omitted characters. */
  end(): string {
    const held = this.#held.slice(-this.#tail);
    const numOmitted = this.#numHeld - held.length;
    this.#held = '';
    this.#numHeld = 0;
    return numOmitted === 0 ? held : omission(numOmitted) + held;
  }

  #warning(): string {
    const [head, tail] = [this.#head, this.#tail].map((count) => count.toLocaleString('en-US'));
    return `\n… this cell has printed ${head} characters; of the further output, only the last ${tail} characters are shown, when the cell ends …\n`;
  }
}

/** Returns a bundle's metadata: the first two lines of its text are the alternative text of its picture. */
export function metadataOf(bundle: MimeBundle): MimeBundle {
  const text = bundle['text/plain'];
  if (bundle['image/png'] === undefined || typeof text !== 'string') return {};
  return { 'image/png': { alt: text.split('\n').slice(0, 2).join('. ') } };
}

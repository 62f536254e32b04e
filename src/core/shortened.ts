/** The length to which a value in a message is cut. */
export const MOST_SHOWN = 100;

/** Cuts a text that is too long for a message, and says how long it is. */
export function shortened(text: string, most = MOST_SHOWN): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (${text.length} characters)`;
}

/** The number of characters that stay at the end of a message that is cut; there it says what to do. */
const END = 300;

/** Cuts a message that is too long within, and says how long it is. */
export function shortenedWithin(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most - END)}… (${text.length} characters) …${text.slice(-END)}`;
}

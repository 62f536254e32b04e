/** The length to which a value in a message is cut. */
export const MOST_SHOWN = 100;

/** Cuts a text that is too long for a message, and says how long it is. */
export function shortened(text: string, most = MOST_SHOWN): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (${text.length} characters)`;
}

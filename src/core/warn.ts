/**
 * Reports a warning: which setting has no effect or not the expected effect, why, and what to do. The message is a sentence
 * without a newline at its end.
 */
export type Warn = (message: string) => void;

/** Returns a function that reports each message only once, even if it is called with the message at every step. */
export function warnOnce(warn: Warn): Warn {
  const reported = new Set<string>();
  return (message) => {
    if (reported.has(message)) return;
    reported.add(message);
    warn(message);
  };
}

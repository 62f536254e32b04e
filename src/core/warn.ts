/**
 * Takes a warning: the given setting, why it has no effect or does something else, and what to do. A sentence, without
 * a newline at its end.
 */
export type Warn = (message: string) => void;

/** Passes on each message once, even if it comes at every step. */
export function warnOnce(warn: Warn): Warn {
  const told = new Set<string>();
  return (message) => {
    if (told.has(message)) return;
    told.add(message);
    warn(message);
  };
}

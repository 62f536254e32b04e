/** Takes a warning: what was given, why it has no effect or is not what it seems, and what to do. A sentence, no newline at its end. */
export type Warn = (message: string) => void;

/** Each message once, also where it comes at every step. */
export function warnOnce(warn: Warn): Warn {
  const told = new Set<string>();
  return (message) => {
    if (told.has(message)) return;
    told.add(message);
    warn(message);
  };
}

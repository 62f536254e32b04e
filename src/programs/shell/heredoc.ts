/** A here-document: text after a command that the command reads. */
export interface Heredoc {
  /** The redirection as it is written: "<<'EOF'". */
  readonly written: string;
  /** The line that ends the text. */
  readonly end: string;
  /** Whether tabs at the beginning of lines are removed. */
  readonly isIndented: boolean;
  /** Whether variables in the text are not replaced by their values. */
  readonly isLiteral: boolean;
}

/** Returns the here-document whose redirection is at a position; null if there is no redirection. */
export function heredocAt(text: string, at: number): Heredoc | null {
  const [written, dash, quoted, backslash, plain] =
    /^\d?<<(-?)[ \t]*(?:(["'][^"'\n]+["'])|(\\?)([\w.-]+))/.exec(text.slice(at, at + 100)) ?? [];
  const end = quoted?.slice(1, -1) ?? plain;
  if (written === undefined || end === undefined) return null;
  return { written, end, isIndented: dash === '-', isLiteral: quoted !== undefined || backslash === '\\' };
}

/** Programs that run a here-document as a script, on this machine or on another one. */
const SHELLS = /(^|\/)(bash|sh|zsh|sbatch|ssh|srun|kubectl)$/;

/**
 * Returns the text of a here-document that begins at a position, with the line that ends it. `words` are the words of its
 * command. Returns null if the text is read as a script, or if the line that ends it is missing.
 */
export function heredocBody(
  text: string,
  at: number,
  { end, isIndented }: Heredoc,
  words: readonly string[],
): string | null {
  if (words.some((word) => SHELLS.test(word))) return null;
  let next = at;
  while (next < text.length) {
    const newline = text.indexOf('\n', next);
    const line = text.slice(next, newline < 0 ? undefined : newline);
    next = newline < 0 ? text.length : newline + 1;
    if ((isIndented ? line.replace(/^\t+/, '') : line) === end) return text.slice(at, next);
  }
  return null;
}

/** Returns the lines of a here-document, without the line that ends it. */
export function bodyOf(text: string, { isIndented }: Heredoc): string {
  const lines = text.replace(/\n?[^\n]*\n?$/, '\n').replace(/^\n$/, '');
  return isIndented ? lines.replaceAll(/^\t+/gm, '') : lines;
}

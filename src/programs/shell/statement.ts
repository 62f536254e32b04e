// Commands of a script, before their variables have values.

/** A part of a word: literal text, or a variable. */
export interface Piece {
  /** The text; for a variable, its default, or how the variable is written. */
  readonly text: string;
  readonly isQuoted: boolean;
  /** The name of the variable: 'GPUS', or 'ARGS[@]' for all words of an array. */
  readonly variable?: string;
  /** Whether the text is arithmetic: '$((GPUS * 2))', '$(expr 16 / $GPUS)'. */
  readonly isArithmetic?: boolean;
}

export interface RawWord {
  readonly pieces: readonly Piece[];
  readonly line: number;
}

/** A command. If it has `array`, it gives its words to the variable of this name. */
export interface RawStatement {
  /** A word that structures the script, in place of a command: 'if', 'then'. */
  readonly keyword?: string;
  readonly array?: string;
  /** The line of the array's name. */
  readonly line?: number;
  /** Whether the words are appended to the array. */
  readonly isAppended?: boolean;
  readonly words: readonly RawWord[];
  /** The file into which the command writes its here-document. */
  readonly written?: RawFile;
}

/** A here-document that a command writes into a file: cat > ds.json <<EOF. */
export interface RawFile {
  readonly name: RawWord;
  /** Whether the text is appended to the file. */
  readonly isAppended: boolean;
  readonly pieces: readonly Piece[];
  /** The line of the first line of the text. */
  readonly line: number;
}

/** First words of pseudo-commands: they stand for parts of a script that are not read, or at which a shell would stop. */
export const NOTES = {
  branch: 'else',
  condition: 'if',
  quote: 'quote',
  continuation: 'backslash',
} as const;

/** Returns the variables that a statement sets for the commands after it. */
export function assignedNames({ array, words }: RawStatement): readonly string[] {
  if (array !== undefined) return [array];
  const texts = words.map(({ pieces: [first] }) => (first?.isQuoted === false ? first.text : ''));
  const assigned = texts[0] === 'export' ? texts.slice(1) : texts;
  const names = assigned.flatMap((text) => /^(\w+)\+?=/.exec(text)?.[1] ?? []);
  return names.length === assigned.length ? names : [];
}

/** Returns the pseudo-command that stands for an assignment which is not read. */
export function otherBranch({ line, words }: RawStatement, names: readonly string[]): readonly RawWord[] {
  return noteWords('branch', line ?? words[0]?.line ?? 1, names);
}

/** Returns a pseudo-command as words: its name, and the part of the script that it is about. */
export function noteWords(
  kind: keyof typeof NOTES,
  line: number,
  about: readonly string[],
): readonly RawWord[] {
  return [NOTES[kind], ...about].map((text) => ({ pieces: [{ text, isQuoted: true }], line }));
}

/** Joins neighbouring texts. */
export function joined(pieces: readonly Piece[]): readonly Piece[] {
  const done: Piece[] = [];
  for (const piece of pieces) {
    const last = done.at(-1);
    const isText =
      last !== undefined &&
      last.variable === undefined &&
      piece.variable === undefined &&
      last.isArithmetic !== true &&
      piece.isArithmetic !== true;
    if (isText && last.isQuoted === piece.isQuoted)
      done.splice(-1, 1, { ...last, text: last.text + piece.text });
    else done.push(piece);
  }
  return done;
}

/** Commands that print the current folder or the script's folder: files are looked up in both folders. */
const HERE = /^\$\(\s*(pwd\s*|(cd\s[^)]*)?\$?\(?\s*dirname\b[^)]*(\$0|BASH_SOURCE)[\s\S]*)\)$/;

/** Returns a stand-in for the unknown output of a command: the command's first word, without blanks. */
export function outputOf(command: string): string {
  if (HERE.test(command)) return '.';
  return `$(${/^\$\(\s*(\S*?)\)?(\s|$)/.exec(command)?.[1] ?? ''}…)`;
}

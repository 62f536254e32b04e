import { type AST, getStaticTOMLValue, ParseError, parseTOML } from 'toml-eslint-parser';
import type { LocatedText } from '../config';
import { ConfigError } from '../core';

/** A file's settings, and the lines of its keys. */
export type Located = Pick<LocatedText, 'input' | 'lineOf'> & Partial<Pick<LocatedText, 'plainOf'>>;

/** Reads TOML. Throws: CONFIG with file, line and column if the text is not TOML, and for a text that is nested too deep. */
export function locatedToml(text: string, file: string): Located {
  try {
    return located(text, file);
  } catch (error) {
    // The parser and its readers are recursive, and the stack ends before a config does.
    if (!(error instanceof RangeError)) throw error;
    throw new ConfigError(`${file}: nested too deep; a config has fewer than 10 levels`, { file });
  }
}

function located(text: string, file: string): Located {
  const program = parsed(text, file);
  const [root] = program.body;
  const lines = new Map(root.body.flatMap((item) => linesOf(item, [])));
  return {
    input: getStaticTOMLValue(program),
    lineOf(path) {
      const key = path.join('.');
      const [, within] = [...lines].find(([name]) => name.startsWith(`${key}.`)) ?? [];
      return lines.get(key) ?? within ?? 1;
    },
  };
}

function parsed(text: string, file: string): AST.TOMLProgram {
  try {
    return parseTOML(text);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw new ConfigError(`${file}:${error.lineNumber}:${error.column + 1}: ${error.message}`, { file });
  }
}

/** Returns each key of a table or of a line, with the sections that contain the key, and the line number. */
function linesOf(
  item: AST.TOMLTable | AST.TOMLKeyValue,
  base: readonly string[],
): readonly (readonly [string, number])[] {
  const names = item.key.keys.map((key) => (key.type === 'TOMLBare' ? key.name : key.value));
  const path = [...base, ...names];
  const own = [path.join('.'), item.loc.start.line] as const;
  if (item.type === 'TOMLTable') return [own, ...item.body.flatMap((each) => linesOf(each, path))];
  const { value } = item;
  return value.type === 'TOMLInlineTable'
    ? [own, ...value.body.flatMap((each) => linesOf(each, path))]
    : [own];
}

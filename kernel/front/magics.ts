/** The kind of a cell, which depends on its first line. */
export type CellRequest =
  | {
      readonly kind: 'notebook';
      readonly source: string;
      readonly selection?: never;
      readonly checkOnly?: never;
    }
  /**
   * A cell for ranks of the newest job; `selection` is an argument of `job.on`. Spaces replace the first line, so that
   * positions stay the same.
   */
  | {
      readonly kind: 'ranks';
      readonly source: string;
      readonly selection: string;
      /** If true, the cell is only type-checked, and nothing is sent to the ranks. */
      readonly checkOnly: boolean;
    }
  /** Python code for ranks that run PyTorch. The first line is empty, so that line numbers stay the same. */
  | { readonly kind: 'python'; readonly source: string; readonly selection: string }
  /** Help on a name; if `inRanks` is true, on a name in `%%ranks` cells. */
  | { readonly kind: 'help'; readonly name: string; readonly inRanks: boolean }
  | { readonly kind: 'unknown'; readonly magic: string };

const HELP = /^\s*(?:\?\??\s*([\w$.]+)|([\w$.]+)\s*\?\??)\s*;?\s*$/;

const CHECK = /(?:^|\s)--check(?=\s|$)/;
const PYTHON = /(?:^|\s)--python(?=\s|$)/;

/**
 * Reads a magic: `%%ranks [--check | --python] 0,2-3` in the first line, or a help request (`?name` or `name?`) alone in the
 * cell or alone below `%%ranks`. No TypeScript begins with `%`.
 */
export function readMagics(code: string): CellRequest {
  const help = HELP.exec(code);
  if (help !== null) return { kind: 'help', name: nameIn(help), inRanks: false };
  const magic = /^\s*(%%?\w+)([^\n]*)(?:\n|$)/.exec(code);
  if (magic === null) return { kind: 'notebook', source: code };
  if (magic[1] !== '%%ranks') return { kind: 'unknown', magic: magic[1] ?? '' };
  const [rest, source] = [magic[2] ?? '', code.slice(magic[0].length)];
  if (PYTHON.test(rest)) {
    return { kind: 'python', selection: withoutBrackets(rest.replace(PYTHON, ' ')), source: `\n${source}` };
  }
  const helpInRanks = HELP.exec(source);
  if (helpInRanks !== null) return { kind: 'help', name: nameIn(helpInRanks), inRanks: true };
  return {
    kind: 'ranks',
    selection: withoutBrackets(rest.replace(CHECK, ' ')),
    checkOnly: CHECK.test(rest),
    source: magic[0].replace(/[^\n]/g, ' ') + source,
  };
}

function nameIn(help: RegExpExecArray): string {
  return help[1] ?? help[2] ?? '';
}

function withoutBrackets(text: string): string {
  const selection = text
    .replace(/(\/\/|#).*$/, '')
    .trim()
    .replace(/^\[(.*)\]$/, '$1')
    .trim();
  return selection === '' ? 'all' : selection;
}

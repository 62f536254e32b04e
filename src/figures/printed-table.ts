/** A table as texts, for papers and reports. */
export interface PrintedTable {
  readonly title: string;
  readonly heads: readonly string[];
  /** Whether each column is aligned at its right end. */
  readonly isRight: readonly boolean[];
  readonly rows: readonly (readonly string[])[];
}

/**
 * Returns a LaTeX tabular with the rules of booktabs. A title is a comment, because a caption belongs to the float around a
 * tabular.
 */
export function latexOf({ title, heads, isRight, rows }: PrintedTable): string {
  const line = (texts: readonly string[]): string => `${rowStart(texts.map(latexText).join(' & '))} \\\\`;
  return [
    ...(title === '' ? [] : [`% ${oneLine(title)}`]),
    '% needs \\usepackage{booktabs}',
    `\\begin{tabular}{${isRight.map((right) => (right ? 'r' : 'l')).join('')}}`,
    '\\toprule',
    line(heads),
    '\\midrule',
    ...rows.map(line),
    '\\bottomrule',
    '\\end{tabular}',
    '',
  ].join('\n');
}

/** Returns a Markdown table (GitHub's form); the title is a paragraph above it. */
export function markdownOf({ title, heads, isRight, rows }: PrintedTable): string {
  const line = (texts: readonly string[]): string => `| ${texts.join(' | ')} |`;
  return [
    ...(title === '' ? [] : [markdownText(oneLine(title)), '']),
    line(heads.map(markdownText)),
    line(isRight.map((right) => (right ? '---:' : '---'))),
    ...rows.map((texts) => line(texts.map(markdownText))),
    '',
  ].join('\n');
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*[\r\n]+\s*/g, ' ');
}

/** Matches what Markdown reads as markup: a pipe ends a cell, and an underscore between letters is only itself. */
const MARKUP = /[\\|*`<~]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu;

/** Returns a cell of Markdown that shows the text as it is. */
function markdownText(text: string): string {
  return text.replaceAll(MARKUP, '\\$&').replaceAll(/\r?\n|\r/g, '<br>');
}

/** LaTeX for characters that mean something else in LaTeX, or that its usual fonts do not have. */
const LATEX: Readonly<Record<string, string>> = {
  '\\': '\\textbackslash{}',
  '~': '\\textasciitilde{}',
  '^': '\\textasciicircum{}',
  '<': '\\textless{}',
  '>': '\\textgreater{}',
  '|': '\\textbar{}',
  // Before another hyphen, with which LaTeX would join it to a dash.
  '-': '-{}',
  '`': '\\textasciigrave{}',
  '"': "''",
  '“': '``',
  '”': "''",
  '‘': '`',
  '’': "'",
  '—': '---',
  '–': '--',
  '…': '\\ldots{}',
  '−': '$-$',
  '×': '$\\times$',
  '÷': '$\\div$',
  '±': '$\\pm$',
  '≤': '$\\leq$',
  '≥': '$\\geq$',
  '≈': '$\\approx$',
  '→': '$\\rightarrow$',
  µ: '$\\mu$',
  '²': '$^2$',
  '³': '$^3$',
  '·': '$\\cdot$',
};

/** Returns a row that LaTeX does not read as an argument of the \\ before it, which may be followed by [length] or a star. */
function rowStart(row: string): string {
  return /^[[*]/.test(row) ? `{}${row}` : row;
}

/** A straight quote before a word, which opens; all others close, as apostrophes do. */
const OPENING = /(?<=^|[\s([{/–—])(["'])(?=\S)/g;

function latexText(text: string): string {
  return oneLine(text)
    .replaceAll(OPENING, (quote) => (quote === '"' ? '“' : '‘'))
    .replaceAll(
      /-(?=-)|[&%$#_{}]|[\\~^<>|`"“”‘’—–…−×÷±≤≥≈→µ²³·]/g,
      (character) => LATEX[character] ?? `\\${character}`,
    );
}

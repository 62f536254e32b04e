/** Advice about names that only Python has. */
const NAMES: Readonly<Record<string, string>> = {
  print: 'write console.log(x)',
  len: 'write x.length, or x.shape[0] for a tensor',
  range: 'write for (let i = 0; i < 3; i++) { … }',
  enumerate: 'write for (const [i, x] of list.entries()) { … }',
  zip: 'write list.map((x, i) => [x, other[i]])',
  isinstance: 'write x instanceof Linear',
  self: 'write this',
  None: 'write null',
  True: 'write true',
  False: 'write false',
  int: 'the type of numbers is number',
  float: 'the type of numbers is number',
  str: 'the type of texts is string',
  elif: 'write else if (condition) { … }',
  __name__: 'leave the condition out',
};

/** Lines that are Python and not TypeScript, with advice if there is a line to write instead. */
const LINES: readonly (readonly [RegExp, string?])[] = [
  [
    /^\s*import\s+[\w.]+(\s+as\s+\w+)?(\s*,\s*[\w.]+(\s+as\s+\w+)?)*\s*;?\s*(#.*)?$/,
    'in %%ranks cells, nn, optim, dist and tf exist without an import',
  ],
  [/^\s*from\s+[\w.]+\s+import\s/, 'in %%ranks cells, nn, optim, dist and tf exist without an import'],
  [/^\s*(async\s+)?def\s+\w+\s*\(/, 'write function f(x) { … }'],
  [/^\s*class\s+\w+\s*(\([^)]*\))?\s*:/, 'write class Net extends nn.Module { … }'],
  [/^\s*(async\s+)?for\s+[\w\s,*()]+\s+in\s/, 'write for (const x of list) { … }'],
  [/^\s*(if|elif|while)\s(.*:\s*(#.*)?$|\s*[^\s(].*:)/, 'write if (condition) { … }'],
  [
    /^\s*with\s+torch\.no_grad\(\)/,
    'write model.eval(), after which calls store no activations, or x.detach()',
  ],
  [/^\s*(else|try|finally|except\b.*|(async\s+)?with\s.*)\s*:/],
  [/^\s*(pass|(raise|del|global|nonlocal|assert|not)\s+[\w'"].*)\s*(#.*)?$/],
  [/\blambda\b[^:]*:/, 'write (x) => x + 1'],
  [/[[({].*\sfor\s.+\sin\s/, 'write list.map((x) => x + 1)'],
  [/(^|[\s=(,[])[rfbu]{1,2}["']/i, `write \`a \${b}\``],
  [/'''|"""/],
  [/^\s*#(\s|$)/, 'a comment begins with //'],
  // A text may have these words, so no quote may come before them.
  [/^[^'"`]*\S\s+if\s.+\selse\s/, 'write condition ? a : b'],
  [/^[^'"`]*([\s=(,[]|^)not\s+[\w(]/, 'write !x'],
  [/^[^'"`]*\S\s(and|or)\s+\S/, 'write && for and, || for or'],
  [
    /^[^'"`]*\w\[[^\]?]*:[^\]]*\]|^[^'"`]*\w\[\s*\.\.\.\s*[,\]]/,
    'write x.slice(from, to), or tf.slice(x, …)',
  ],
  [/\{\s*\*\*/, 'write { ...x }'],
  [/^[^'"`/]*\S\s+#\s/, 'a comment begins with //'],
  [/^\s*[%!]\w+(\s+[\w.-]+)*\s*$/],
];

/** A place in a cell that is Python. */
export interface PythonPlace {
  /** From 1. */
  readonly line: number;
  readonly advice: string | undefined;
}

/** Returns the advice about a name that only Python has; undefined for other names. */
export function pythonName(name: string): string | undefined {
  return Object.hasOwn(NAMES, name) ? NAMES[name] : undefined;
}

/** Returns the place if a line that does not parse as TypeScript is Python. */
export function pythonLine(text: string, line: number): PythonPlace | undefined {
  const habit = LINES.find(([pattern]) => pattern.test(text));
  return habit && { line, advice: habit[1] };
}

/** Says that a cell is Python. */
export function pythonSentence({ line, advice }: PythonPlace): string {
  return (
    `Line ${line} is Python, and cells are TypeScript${advice === undefined ? '' : `: ${advice}`}. ` +
    'To run Python in the ranks of engine torch, begin the cell with %%ranks --python.'
  );
}

/** Part of a Python file: one or several lines; null and false add no line. */
type Part = string | readonly string[] | null | false;

/** Joins parts of a file, one per line. */
export function lines(...parts: readonly Part[]): string {
  return parts.flatMap((part) => (part === null || part === false ? [] : part)).join('\n');
}

/** Indents the lines of a text that are not empty. */
export function indented(text: string, depth = 1): string {
  return text.replaceAll(/^(?=.)/gm, '    '.repeat(depth));
}

/** Writes a value as Python does. */
export function pythonValue(value: boolean | number | string | readonly number[]): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'object') return `(${value.map(pythonValue).join(', ')})`;
  return JSON.stringify(value);
}

/** Writes keyword arguments: 'lr=0.001, eps=1e-8'. */
export function keywords(args: Readonly<Record<string, Parameters<typeof pythonValue>[0]>>): string {
  return Object.entries(args)
    .map(([name, value]) => `${name}=${pythonValue(value)}`)
    .join(', ');
}

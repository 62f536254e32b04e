/** Part of a Python file: one or several lines; null and false add no line. */
export type Part = string | readonly string[] | null | false;

/** Joins parts of a file, one per line. */
export function lines(...parts: readonly Part[]): string {
  return parts.flatMap((part) => (part === null || part === false ? [] : part)).join('\n');
}

/** Writes a value as Python does. */
export function pythonValue(value: boolean | number | string | readonly number[]): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'object') return `(${value.map(pythonValue).join(', ')})`;
  return JSON.stringify(value);
}

/** Writes keyword arguments: 'lr=0.001, eps=1e-8, betas=(0.0, 0.9)'. */
export function keywords(args: Readonly<Record<string, Parameters<typeof pythonValue>[0]>>): string {
  return Object.entries(args)
    .map(([name, value]) => `${name}=${pythonText(name, value)}`)
    .join(', ');
}

function pythonText(name: string, value: Parameters<typeof pythonValue>[0]): string {
  if (typeof value === 'object') return `(${value.map((one) => numberText(name, one)).join(', ')})`;
  return typeof value === 'number' ? numberText(name, value) : pythonValue(value);
}

/** The names, in torch and in programs that use it, of settings that are floats. torch refuses betas of which one is an int. */
const FLOATS = /(^|_)(lr|learning_rate|betas?\d?|eps|epsilon|weight_decay|momentum|max_norm|max_grad_norm)$/;

/** Writes the number of a setting, with a point if Python must read a float. */
export function numberText(name: string, value: number): string {
  const text = JSON.stringify(value);
  return FLOATS.test(name) && Number.isInteger(value) && !/[.e]/.test(text) ? `${text}.0` : text;
}

/** Returns JSON in which the settings that are floats have a point. */
export function jsonText(document: object): string {
  // The mark, which no setting contains, shows which texts are numbers.
  const marked = (name: string, value: unknown): unknown => {
    if (typeof value === 'number' && FLOATS.test(name)) return `\u0001${numberText(name, value)}`;
    return Array.isArray(value) && FLOATS.test(name) ? value.map((one) => marked(name, one)) : value;
  };
  return JSON.stringify(document, marked, 2).replaceAll(/"\\u0001([^"]*)"/g, '$1');
}

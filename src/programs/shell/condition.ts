/** Comparisons of numbers, by the operators of `test`. */
const NUMBERS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '-eq': (a, b) => a === b,
  '-ne': (a, b) => a !== b,
  '-gt': (a, b) => a > b,
  '-ge': (a, b) => a >= b,
  '-lt': (a, b) => a < b,
  '-le': (a, b) => a <= b,
};

const BRACKETS: Readonly<Record<string, string>> = { '[[': ']]', '[': ']' };

/**
 * Returns whether the condition of an `if` holds; undefined if it is no comparison of known values. Patterns and tests of files are not
 * known.
 */
export function conditionOf(command: readonly string[]): boolean | undefined {
  const [first = '', ...rest] = command;
  if (first !== 'test' && rest.at(-1) !== BRACKETS[first]) return undefined;
  const words = first === 'test' ? rest : rest.slice(0, -1);
  if (words.some((word) => /[$`*?~]/.test(word))) return undefined;
  const [a = '', operator = '', b = ''] = words;
  if (words.length === 2 && a === '-n') return operator !== '';
  if (words.length === 2 && a === '-z') return operator === '';
  if (words.length !== 3) return undefined;
  if (operator === '==' || operator === '=') return a === b;
  if (operator === '!=') return a !== b;
  const areNumbers = [a, b].every((word) => /^-?\d+$/.test(word));
  return areNumbers ? NUMBERS[operator]?.(Number(a), Number(b)) : undefined;
}

/** How strongly the operators of an expression bind; the parts of an operation with stronger ones need parentheses. */
export const BINDING = { comparison: 0, sum: 1, product: 2, sign: 3, whole: 4 } as const;

/** An expression of Python. */
export interface Expression {
  readonly text: string;
  readonly binding: number;
}

/** Returns an expression that needs no parentheses: a name, a call or a number. */
export function whole(text: string): Expression {
  return { text, binding: text.startsWith('-') ? BINDING.sign : BINDING.whole };
}

/** Returns an expression within an operation that binds as strongly as `binding`, in parentheses if they are needed. */
export function within({ text, binding: own }: Expression, binding: number): string {
  return own < binding ? `(${text})` : text;
}

/** Returns the operation of two expressions. Python reads `a < b == c` as `a < b and b == c`, so a comparison in one has parentheses. */
export function binary(left: Expression, operator: string, right: Expression, binding: number): Expression {
  const least = binding === BINDING.comparison ? binding + 1 : binding;
  return { text: `${within(left, least)} ${operator} ${within(right, binding + 1)}`, binding };
}

/** Returns a call of a method. */
export function method(object: Expression, name: string, ...args: readonly string[]): Expression {
  return whole(`${within(object, BINDING.whole)}.${name}(${args.join(', ')})`);
}

/** Returns a call of a function. */
export function call(name: string, ...args: readonly string[]): Expression {
  return whole(`${name}(${args.join(', ')})`);
}

/** Returns a tuple of Python. */
export function tupleOf(parts: readonly string[]): string {
  return parts.length === 1 ? `(${parts[0]},)` : `(${parts.join(', ')})`;
}

/** Returns the shortest number of Python that is the same float32. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'float("nan")';
  if (!Number.isFinite(value)) return value > 0 ? 'float("inf")' : 'float("-inf")';
  for (let digits = 1; digits < 17; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === Math.fround(value)) return withPoint(short);
  }
  return withPoint(value);
}

function withPoint(value: number): string {
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

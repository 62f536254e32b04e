import { afterBracket, splitAt, type Token } from './tokens';

/** An expression of Python, in as much detail as settings need. */
type Shape =
  | { readonly kind: 'literal'; readonly value: string | number | boolean | null }
  | { readonly kind: 'list'; readonly items: readonly Expression[] }
  | { readonly kind: 'dict'; readonly items: readonly Argument[] }
  /** A name with the names of attributes: 'torch.bfloat16'. */
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'call'; readonly callee: string; readonly given: readonly Argument[] }
  /** What brackets after an expression give: mesh['dp']. */
  | { readonly kind: 'item'; readonly of: Expression; readonly index: Expression }
  | { readonly kind: 'computed' };

/** An expression, and where it is written. */
export type Expression = Shape & { readonly line: number; readonly from: number; readonly to: number };

/** An argument of a call, or an entry of a dict. */
export interface Argument {
  /** The keyword; '**' or '*' if the expression is unpacked into several arguments; null for an argument by position. */
  readonly name: string | null;
  readonly value: Expression;
}

/** Returns the expression of tokens; an expression that is neither written out nor a call counts as computed. */
export function expressionOf(tokens: readonly Token[]): Expression {
  const [first] = tokens;
  const place = { line: first?.line ?? 1, from: first?.from ?? 0, to: tokens.at(-1)?.to ?? 0 };
  const found = (shape: Shape): Expression => ({ ...shape, ...place });
  if (first === undefined) return found({ kind: 'computed' });
  if (splitAt(tokens, ',').length > 1) return found({ kind: 'list', items: itemsOf(tokens) });
  if (tokens.every(({ kind }) => kind === 'text')) {
    const values = tokens.map(({ value }) => value);
    return values.includes(null)
      ? found({ kind: 'computed' })
      : found({ kind: 'literal', value: values.join('') });
  }
  if (first.kind === 'number' && tokens.length === 1 && typeof first.value === 'number')
    return found({ kind: 'literal', value: first.value });
  const numSigns = tokens.findIndex(({ text }) => text !== '-' && text !== '+');
  if (numSigns > 0) return found(signed(tokens.slice(0, numSigns), expressionOf(tokens.slice(numSigns))));
  const end = first.kind === 'sign' && '([{'.includes(first.text) ? afterBracket(tokens, 0) : 1;
  if (end === tokens.length && end > 1) return bracketed(tokens, found);
  return found(trailed(tokens));
}

function signed(signs: readonly Token[], expression: Expression): Shape {
  if (expression.kind !== 'literal' || typeof expression.value !== 'number') return { kind: 'computed' };
  const isNegative = signs.filter(({ text }) => text === '-').length % 2 === 1;
  return { kind: 'literal', value: isNegative ? -expression.value : expression.value };
}

/** Returns what a pair of brackets contains. */
function bracketed(tokens: readonly Token[], found: (shape: Shape) => Expression): Expression {
  const inner = tokens.slice(1, -1);
  if (inner.some(({ kind, text }) => kind === 'name' && text === 'for')) return found({ kind: 'computed' });
  const [open] = tokens;
  if (open?.text === '(' && splitAt(inner, ',').length === 1 && inner.length > 0) return expressionOf(inner);
  const isDict =
    open?.text === '{' &&
    (inner.length === 0 || splitAt(splitAt(inner, ',')[0] ?? [], ':').length > 1 || inner[0]?.text === '**');
  return isDict
    ? found({ kind: 'dict', items: entriesOf(inner) })
    : found({ kind: 'list', items: itemsOf(inner) });
}

/** Returns a name with its attributes, calls and items; other signs after the name mean that the value is computed. */
function trailed(tokens: readonly Token[]): Shape {
  const [first] = tokens;
  if (first?.kind !== 'name') return { kind: 'computed' };
  if (tokens.length === 1) {
    const constants: Readonly<Record<string, boolean | null>> = { True: true, False: false, None: null };
    if (Object.hasOwn(constants, first.text))
      return { kind: 'literal', value: constants[first.text] ?? null };
  }
  const { name, end } = dottedName(tokens, 0);
  if (end === tokens.length) return { kind: 'name', name };
  const open = tokens[end]?.text;
  const close = afterBracket(tokens, end);
  if (close !== tokens.length || (open !== '(' && open !== '[')) return { kind: 'computed' };
  const inner = tokens.slice(end + 1, -1);
  if (open === '(') return { kind: 'call', callee: name, given: argumentsOf(inner) };
  return { kind: 'item', of: expressionOf(tokens.slice(0, end)), index: expressionOf(inner) };
}

/** Returns the dotted name that begins at an index, such as torch.nn.Linear, and the index after the name. */
export function dottedName(
  tokens: readonly Token[],
  at: number,
): { readonly name: string; readonly end: number } {
  let name = tokens[at]?.text ?? '';
  let end = at + 1;
  while (tokens[end]?.text === '.' && tokens[end + 1]?.kind === 'name') {
    name += `.${tokens[end + 1]?.text ?? ''}`;
    end += 2;
  }
  return { name, end };
}

/** Returns the arguments between the brackets of a call. */
export function argumentsOf(tokens: readonly Token[]): readonly Argument[] {
  return partsOf(tokens).map((part): Argument => {
    const [first, second] = part;
    if (first?.text === '**' || first?.text === '*')
      return { name: first.text, value: expressionOf(part.slice(1)) };
    if (first?.kind === 'name' && second?.text === '=')
      return { name: first.text, value: expressionOf(part.slice(2)) };
    return { name: null, value: expressionOf(part) };
  });
}

/** Returns the entries of a dict; keys that are no texts have the name '*'. */
function entriesOf(tokens: readonly Token[]): readonly Argument[] {
  return partsOf(tokens).map((part): Argument => {
    if (part[0]?.text === '**') return { name: '**', value: expressionOf(part.slice(1)) };
    const [key = [], ...rest] = splitAt(part, ':');
    const name = expressionOf(key);
    const value = expressionOf(rest.flat());
    return { name: name.kind === 'literal' ? String(name.value) : '*', value };
  });
}

function itemsOf(tokens: readonly Token[]): readonly Expression[] {
  return partsOf(tokens).map((part) => expressionOf(part));
}

function partsOf(tokens: readonly Token[]): readonly (readonly Token[])[] {
  return splitAt(tokens, ',').filter((part) => part.length > 0);
}

import { type Argument, dottedName, type Expression, expressionOf } from './expressions';
import { afterBracket, type Statement, splitAt, type Token } from './tokens';

/** The values of the names in a file, if the file shows these values without a computation. */
export interface Names {
  /** Returns the full name of an imported name, with its attributes: 'torch.bfloat16'; null if the name is not imported. */
  readonly imported: (name: string) => string | null;
  /** Whether a statement of the file gives the name a value. */
  readonly isOwn: (name: string) => boolean;
  /** Returns the only value that a name ever has; null if it has several values, or no value that the file shows. */
  readonly valueOf: (name: string) => Expression | null;
}

/** Methods that change a list or a dict. */
const CHANGES = [
  'update',
  'setdefault',
  'pop',
  'popitem',
  'clear',
  'append',
  'extend',
  'insert',
  'add',
  'remove',
];

/** Finds the values that statements give to names. */
export function namesOf(statements: readonly Statement[]): Names {
  const imports = new Map<string, string>();
  const values = new Map<string, Expression>();
  const counts = new Map<string, number>();
  const bind = (name: string): void => {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  };
  for (const { tokens } of statements) {
    const imported = importsOf(tokens);
    for (const [name, full] of imported) {
      if (!imports.has(name)) imports.set(name, full);
    }
    if (imported.length > 0) continue;
    for (const name of boundBy(tokens)) bind(name);
    const assigned = assignmentOf(tokens);
    if (assigned !== null) values.set(assigned.name, expressionOf(assigned.tokens));
  }
  return {
    imported(name) {
      const [root = '', ...rest] = name.split('.');
      const full = imports.get(root);
      return full === undefined || counts.has(root) ? null : [full, ...rest].join('.');
    },
    isOwn: (name) => counts.has(name.split('.')[0] ?? ''),
    valueOf: (name) => (counts.get(name) === 1 && !imports.has(name) ? (values.get(name) ?? null) : null),
  };
}

/** Returns the names that an import binds, each with its full name. */
function importsOf(tokens: readonly Token[]): readonly (readonly [string, string])[] {
  const [first] = tokens;
  if (first?.kind !== 'name' || (first.text !== 'import' && first.text !== 'from')) return [];
  const at = tokens.findIndex(({ text }) => text === 'import');
  const module =
    first.text === 'from'
      ? tokens
          .slice(1, at)
          .map(({ text }) => text)
          .join('')
      : null;
  const listed = tokens.slice(at + 1).filter(({ text }) => text !== '(' && text !== ')');
  return splitAt(listed, ',').flatMap((part) => {
    const [name] = part;
    if (name?.kind !== 'name') return [];
    const full = dottedName(part, 0);
    const alias = part[full.end]?.text === 'as' ? part[full.end + 1]?.text : undefined;
    if (module !== null) return [[alias ?? name.text, `${module}.${full.name}`] as const];
    return [alias === undefined ? ([name.text, name.text] as const) : ([alias, full.name] as const)];
  });
}

/** Returns the name and the value of 'name = value' or 'name: type = value'; null if it is another kind of statement. */
function assignmentOf(
  tokens: readonly Token[],
): { readonly name: string; readonly tokens: readonly Token[] } | null {
  const [target = [], value, ...more] = splitAt(tokens, '=');
  const [name, colon] = target;
  if (value === undefined || more.length > 0 || name?.kind !== 'name') return null;
  return target.length === 1 || colon?.text === ':' ? { name: name.text, tokens: value } : null;
}

/** Returns the names that a statement binds or changes; a name is included if this is uncertain. */
function boundBy(tokens: readonly Token[]): readonly string[] {
  const names = (from: readonly Token[]): readonly string[] =>
    from.flatMap(({ kind, text }) => (kind === 'name' ? [text] : []));
  const targets = splitAt(tokens, '=').slice(0, -1);
  // The type of a target is not bound.
  const found = targets.flatMap((target) => names(splitAt(target, ':')[0] ?? []));
  const [first, second] = tokens;
  if (first?.text === 'global' || first?.text === 'nonlocal' || first?.text === 'del')
    found.push(...names(tokens.slice(1)));
  for (const [at, { kind, text }] of tokens.entries()) {
    const [before, next] = [tokens[at - 1], tokens[at + 1]];
    if (kind === 'sign' && (text === ':=' || /^(\*\*|\/\/|>>|<<|[-+*/%@&|^])=$/.test(text)))
      found.push(
        ...names(tokens.slice(Math.max(0, at - 1), at)),
        ...(text === ':=' ? [] : names(tokens.slice(0, 1))),
      );
    if (kind !== 'name') continue;
    if (text === 'as' && next !== undefined) found.push(...names([next]));
    const until = (end: number, from = at + 1): readonly Token[] =>
      tokens.slice(from, end < 0 ? undefined : end);
    if (text === 'for') found.push(...names(until(indexAfter(tokens, at, 'in'))));
    if (text === 'class' && next !== undefined) found.push(next.text);
    if (text === 'def') {
      const open = indexAfter(tokens, at, '(');
      found.push(...names(until(at + 2)), ...parameters(until(afterBracket(tokens, open) - 1, open + 1)));
    }
    if (text === 'lambda') found.push(...parameters(until(indexAfter(tokens, at, ':'))));
    if (CHANGES.includes(text) && before?.text === '.' && next?.text === '(')
      found.push(tokens[at - 2]?.text ?? '');
  }
  return second === undefined ? [] : found;
}

/** Returns the names of parameters; names in their types and defaults are not bound. */
function parameters(tokens: readonly Token[]): readonly string[] {
  return splitAt(tokens, ',').flatMap((part) => part.find(({ kind }) => kind === 'name')?.text ?? []);
}

/** Returns the index of the next token with a text; -1 if there is no such token. */
function indexAfter(tokens: readonly Token[], from: number, text: string): number {
  return tokens.findIndex((token, index) => index > from && token.text === text);
}

/** Returns the entries of a dict that is written out, also as dict(…); null if the dict is computed. */
export function entriesIn(expression: Expression): readonly Argument[] | null {
  if (expression.kind === 'dict') return expression.items;
  return expression.kind === 'call' && expression.callee === 'dict' ? expression.given : null;
}

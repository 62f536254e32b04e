import type { SyntaxNode, Tree } from '@lezer/common';
import { ConfigError } from '../../core';

/** The nodes of an expression: one, or several for a tuple without brackets and for the generator in f(x for x in y). */
export type Expression = readonly SyntaxNode[];

/** An argument of a call, or an entry of a dict. */
export interface Argument {
  /** The keyword; '**' or '*' if the expression is unpacked into several arguments; null for an argument by position. */
  readonly name: string | null;
  readonly value: Expression;
}

/** Source: MAXLEVEL of CPython's tokenizer. */
const DEEPEST = 200;

/** Texts, comments and brackets. */
const MARKS =
  /""".*?"""|'''.*?'''|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'|#[^\n]*|[()[\]{}]/gs;

const DOTTED = /^[\p{L}_][\p{L}\p{N}_]*(\.[\p{L}_][\p{L}\p{N}_]*)*$/u;

/** The syntax of a file of Python. Lines that are no Python, such as the commands of a notebook, do not hide the lines around them. */
export class PythonSyntax {
  readonly #text: string;
  readonly #tree: Tree;
  readonly #lineStarts: readonly number[];

  /** Throws: CONFIG for brackets that are nested deeper than Python reads. */
  constructor(text: string, file: string) {
    this.#text = text.replaceAll('\r\n', '\n');
    this.#lineStarts = [0, ...Array.from(this.#text.matchAll(/\n/g), ({ index }) => index + 1)];
    this.#requireShallow(file);
    // The package is loaded when a script of Python is read, because few commands read one. `require` returns any value, so its
    // type is taken from the package's declarations.
    const { parser } = require('@lezer/python') as typeof import('@lezer/python');
    this.#tree = parser.parse(this.#text);
  }

  /** Returns the nodes of some kinds, in the order of the file; texts such as f'{x}' are not searched. */
  nodes(kinds: ReadonlySet<string>, within: Expression = [this.#tree.topNode]): readonly SyntaxNode[] {
    const found: SyntaxNode[] = [];
    for (const node of within)
      node.cursor().iterate((each) => {
        if (kinds.has(each.name)) found.push(each.node);
        return each.name !== 'FormatString';
      });
    return found;
  }

  #requireShallow(file: string): void {
    let depth = 0;
    for (const { 0: mark, index } of this.#text.matchAll(MARKS)) {
      if (/^[([{]$/.test(mark)) depth += 1;
      else if (/^[)\]}]$/.test(mark)) depth = Math.max(0, depth - 1);
      if (depth <= DEEPEST) continue;
      throw new ConfigError(
        `${file}:${this.#lineAt(index)}: more than ${DEEPEST} brackets within each other, which Python does not read; write the values out`,
        { file },
      );
    }
  }

  /** Returns an expression's text, as the file writes it. */
  textOf(expression: Expression): string {
    return this.#text.slice(expression[0]?.from ?? 0, expression.at(-1)?.to ?? 0);
  }

  lineOf(expression: Expression): number {
    return this.#lineAt(expression[0]?.from ?? 0);
  }

  #lineAt(position: number): number {
    let [first, last] = [0, this.#lineStarts.length];
    while (last - first > 1) {
      const middle = (first + last) >> 1;
      if ((this.#lineStarts[middle] ?? 0) <= position) first = middle;
      else last = middle;
    }
    return first + 1;
  }

  /** Returns a name with its attributes, such as torch.nn.Linear; null for any other expression. */
  dottedName(expression: Expression): string | null {
    const name = this.textOf(expression).replaceAll(/[\s\\]*\.[\s\\]*/g, '.');
    return DOTTED.test(name) ? name : null;
  }

  /** Returns the dotted name that a node calls: torch.nn.Linear(…), or @torch.autocast(…) before a function; null for other nodes. */
  calleeOf(node: SyntaxNode): string | null {
    if (node.lastChild?.name !== 'ArgList' && node.getChild('ArgList') === null) return null;
    return this.dottedName(partsOf(node).filter(({ name }) => name !== 'ArgList' && name !== 'At'));
  }

  /** Returns the arguments of a call. */
  argumentsOf(call: SyntaxNode): readonly Argument[] {
    const list = call.getChild('ArgList');
    const nodes = list === null ? [] : innerOf(list);
    const isGenerator = nodes.some(({ name }) => name === 'for');
    return (isGenerator ? [nodes] : listed(nodes)).map((part): Argument => {
      const [first, sign] = part;
      if (first?.name === '*' || first?.name === '**') return { name: first.name, value: part.slice(1) };
      const isNamed = first?.name === 'VariableName' && sign !== undefined && this.textOf([sign]) === '=';
      return isNamed ? { name: this.textOf([first]), value: part.slice(2) } : { name: null, value: part };
    });
  }

  /** Returns the entries of a dict that is written out, also as dict(…); null if the dict is computed. */
  entriesIn([node, ...more]: Expression): readonly Argument[] | null {
    if (node === undefined || more.length > 0) return null;
    if (node.name !== 'DictionaryExpression')
      return this.calleeOf(node) === 'dict' ? this.argumentsOf(node) : null;
    return listed(innerOf(node)).map(([key, ...value]): Argument => {
      if (key?.name === '**') return { name: '**', value };
      // A key that is no text has the name '*'.
      const name = key === undefined ? undefined : this.literalOf([key]);
      return { name: name === undefined ? '*' : String(name), value: value.slice(1) };
    });
  }

  /** Returns the value of an expression that is written out; undefined if the value is computed. */
  literalOf(expression: Expression): string | number | boolean | null | undefined {
    const [node, ...more] = expression;
    if (node === undefined || more.length > 0) return undefined;
    const text = this.textOf(expression);
    if (node.name === 'Boolean') return text === 'True';
    if (node.name === 'None') return null;
    if (/String$/.test(node.name)) {
      const texts = node.name === 'ContinuedString' ? partsOf(node) : expression;
      const values = texts.map((one) => valueOfText(this.textOf([one])));
      return values.includes(undefined) ? undefined : values.join('');
    }
    // '1.' and '-1' are several nodes of the tree.
    const [, signs = '', digits] = /^([-+\s]*)([.\d].*)$/.exec(text) ?? [];
    const number = digits === undefined ? Number.NaN : Number(digits.replaceAll('_', ''));
    if (Number.isNaN(number)) return undefined;
    return signs.replaceAll(/[^-]/g, '').length % 2 === 1 ? -number : number;
  }
}

/** Returns a text's value from its form in the file; undefined if the value is computed, as in f'{x}'. */
function valueOfText(text: string): string | undefined {
  const [, prefix = '', , inner = ''] = /^([A-Za-z]*)('''|"""|'|")(.*?)\2?$/s.exec(text) ?? [];
  if (/[ft]/i.test(prefix) && inner.includes('{')) return undefined;
  return /r/i.test(prefix) ? inner : inner.replaceAll(/\\\n?/g, '');
}

/** Returns an expression without the brackets around it. */
export function bareOf(expression: Expression): Expression {
  let bare = expression;
  while (bare.length === 1 && bare[0]?.name === 'ParenthesizedExpression') bare = innerOf(bare[0]);
  return bare;
}

/** Returns the nodes in a node, except comments and places where something is missing. */
export function partsOf(node: SyntaxNode): Expression {
  const parts: SyntaxNode[] = [];
  for (let part = node.firstChild; part !== null; part = part.nextSibling)
    if (part.name !== 'Comment' && part.to > part.from) parts.push(part);
  return parts;
}

/** Returns the nodes between the brackets of a node. */
export function innerOf(node: SyntaxNode): Expression {
  const parts = partsOf(node);
  const open = parts.findIndex(({ name }) => /^[([{]$/.test(name));
  return parts.slice(open + 1).filter(({ name }) => !/^[)\]}]$/.test(name));
}

/** Divides nodes at commas. */
export function listed(nodes: Expression): readonly Expression[] {
  const items: SyntaxNode[][] = [[]];
  for (const node of nodes) {
    if (node.name === ',') items.push([]);
    else items.at(-1)?.push(node);
  }
  return items.filter((item) => item.length > 0);
}

import type { SyntaxNode } from '@lezer/common';
import { type Expression, type PythonSyntax, partsOf } from './syntax';

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
const CHANGES = /\.(update|setdefault|pop|popitem|clear|append|extend|insert|add|remove)$/;

/** Finds the values that the statements of a file give to names; `nodes` are all nodes of the kinds NAMING. */
export function namesOf(nodes: readonly SyntaxNode[], syntax: PythonSyntax): Names {
  const imports = new Map<string, string>();
  const values = new Map<string, Expression>();
  const counts = new Map<string, number>();
  for (const node of nodes) {
    if (node.name === 'ImportStatement')
      for (const [name, full] of importsOf(syntax.textOf([node]))) {
        if (!imports.has(name)) imports.set(name, full);
      }
    for (const bound of syntax.nodes(VARIABLES, BOUND[node.name]?.(node, syntax) ?? [])) {
      const name = syntax.textOf([bound]);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    if (node.name !== 'AssignStatement') continue;
    const [target, sign, ...value] = partsOf(node).filter(({ name }) => name !== 'TypeDef');
    if (target?.name === 'VariableName' && sign?.name === 'AssignOp')
      values.set(syntax.textOf([target]), value);
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

const VARIABLES: ReadonlySet<string> = new Set(['VariableName']);

/** The parts of a node whose names the node binds or changes, by the node's kind. */
const BOUND: Readonly<Record<string, (node: SyntaxNode, syntax: PythonSyntax) => Expression>> = {
  AssignStatement(node) {
    const parts = partsOf(node);
    const sign = parts.findLastIndex(({ name }) => name === 'AssignOp');
    return parts.slice(0, Math.max(0, sign)).filter(({ name }) => name !== 'TypeDef');
  },
  UpdateStatement: (node) => partsOf(node).slice(0, 1),
  AssignOp: (node, syntax) =>
    syntax.textOf([node]) === ':=' && node.prevSibling !== null ? [node.prevSibling] : [],
  ScopeStatement: partsOf,
  DeleteStatement: partsOf,
  CapturePattern: partsOf,
  ClassDefinition: declared,
  FunctionDefinition: declared,
  ParamList: declared,
  CallExpression({ firstChild: callee }, syntax) {
    const isMethod = callee?.name === 'MemberExpression' && CHANGES.test(syntax.textOf([callee]));
    return isMethod ? [callee] : [];
  },
  for(node) {
    const parts = after(node);
    return parts.slice(
      0,
      parts.findIndex(({ name }) => name === 'in'),
    );
  },
  as: (node) => (node.parent?.name === 'ImportStatement' ? [] : after(node).slice(0, 1)),
};

/** Kinds of nodes that give names a meaning. */
export const NAMING: readonly string[] = ['ImportStatement', ...Object.keys(BOUND)];

/** Returns the name of a definition, or the names of parameters; names in types and defaults are not bound. */
function declared(node: SyntaxNode): Expression {
  return partsOf(node).filter(
    (part, at, parts) => part.name === 'VariableName' && parts[at - 1]?.name !== 'AssignOp',
  );
}

/** Returns the nodes that follow a node in the same statement or expression. */
function after(node: SyntaxNode): Expression {
  return node.parent === null ? [] : partsOf(node.parent).filter(({ from }) => from > node.from);
}

/** Returns the names that an import binds, each with its full name. */
function importsOf(statement: string): readonly (readonly [string, string])[] {
  const text = statement.replaceAll(/#.*|[()\\]/g, ' ');
  const [, module, list = ''] = /^(?:from\s+(.*?)\s*)?\bimport\b(.*)$/s.exec(text) ?? [];
  return list.split(',').flatMap((item) => {
    const [full = '', alias] = item.trim().split(/\s+as\s+/);
    if (!/^[\p{L}_]/u.test(full)) return [];
    if (module !== undefined) return [[alias ?? full, `${module}.${full}`] as const];
    const [root = ''] = full.split('.');
    return [alias === undefined ? ([root, root] as const) : ([alias, full] as const)];
  });
}

import type { SyntaxNode } from '@lezer/common';
import { NOT_KNOWN } from '../rows/meant';
import { type Argument, bareOf, type Expression, innerOf, listed, PythonSyntax, partsOf } from './syntax';

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
function namesOf(nodes: readonly SyntaxNode[], syntax: PythonSyntax): Names {
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
const NAMING: readonly string[] = ['ImportStatement', ...Object.keys(BOUND)];

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

/** A call of a known module's function, with the values of its arguments as far as the file shows them. */
export interface PythonCall {
  /** The function's name without its module. */
  readonly name: string;
  /** The function as the file writes it. */
  readonly written: string;
  readonly line: number;
  /** Where the call begins in the file. */
  readonly from: number;
  /** Whether the call is in a loop. */
  readonly isInLoop: boolean;
  /** The attribute over which the loop around the call goes: 'experts' for `for e in model.experts`; null: not known. */
  readonly over: string | null;
  /** Whether a loop or a condition around the call chooses modules of class Linear. */
  readonly isOfLinears: boolean;
  readonly given: readonly PythonArgument[];
}

export interface PythonArgument {
  /** The argument's keyword, or its position as a number. */
  readonly name: string | number;
  readonly line: number;
  /** The value of a number, a truth value or a text; any other argument as the file writes it. */
  readonly written: unknown;
  /** The argument's meaning: literals, lists of literals, full names of PyTorch's constants, calls as `Called`, or NOT_KNOWN. */
  readonly meant: unknown;
}

/** An argument's value, if it is a call or an item of a call's result. */
export interface Called {
  readonly call: string;
  readonly given: Readonly<Record<string, unknown>>;
  /** Where the call begins in the file. */
  readonly from: number;
  /** The content of the brackets after the call, such as the name of a mesh's axis. */
  readonly item?: unknown;
}

/** The functions that are read, each with the names of its arguments by position. */
export type Signatures = Readonly<Record<string, readonly string[]>>;

/** The functions that are read, and the modules of programs that have some of them. */
export interface KnownFunctions {
  readonly signatures: Signatures;
  readonly modules: readonly string[];
}

/** Usual short names of functions, for files that do not import the functions. */
const SHORT: Readonly<Record<string, string>> = {
  FSDP: 'FullyShardedDataParallel',
  DDP: 'DistributedDataParallel',
};

/** Modules whose names are known here, besides those of registered programs. */
const MODULES: readonly string[] = [
  'torch',
  'accelerate',
  'functools',
  'peft',
  'megatron.core.tensor_parallel',
];

/** A name is followed through at most this number of assignments. */
const MOST_NAMES = 8;
/** At most this number of expressions is read; names that stand for lists of names would otherwise multiply without end. */
const MOST_EXPRESSIONS = 200_000;

const CALLS: ReadonlySet<string> = new Set(['CallExpression', 'Decorator']);
const KINDS: ReadonlySet<string> = new Set([...CALLS, ...NAMING]);

/** A file of Python, from which calls are read. */
export class PythonFile {
  readonly #syntax: PythonSyntax;
  /** Calls, also those before a function: @torch.no_grad(). */
  readonly #sites: readonly SyntaxNode[];
  readonly #names: Names;
  readonly #signatures: Signatures;
  readonly #modules: readonly string[];
  #numRead = 0;

  constructor(text: string, file: string, { signatures, modules }: KnownFunctions) {
    this.#syntax = new PythonSyntax(text, file);
    const nodes = this.#syntax.nodes(KINDS);
    this.#names = namesOf(nodes, this.#syntax);
    this.#sites = nodes.filter(({ name }) => CALLS.has(name));
    this.#signatures = signatures;
    this.#modules = [...MODULES, ...modules];
  }

  /** Returns the calls of known functions, in the order of the file. */
  calls(): readonly PythonCall[] {
    return this.#sites.flatMap((site) => {
      const call = this.#callOf(site);
      if (call === null) return [];
      const given = this.#argumentsOf(call.name, call.given, MOST_NAMES);
      const line = this.#syntax.lineOf([site]);
      return [{ ...call, given, line, from: site.from, ...this.#around(site) }];
    });
  }

  /** Returns modules other than PyTorch's from which a known function is imported and called, with the line. */
  others(): readonly { readonly name: string; readonly line: number }[] {
    return this.#sites.flatMap((site) => {
      const callee = this.#syntax.calleeOf(site);
      const full = callee === null ? null : this.#names.imported(callee);
      const isOther = full !== null && !this.#isKnown(full) && this.#ownName(full) !== null;
      return isOther ? [{ name: full, line: this.#syntax.lineOf([site]) }] : [];
    });
  }

  /** Returns what the loops and the conditions around a call say. */
  #around(call: SyntaxNode): Pick<PythonCall, 'isInLoop' | 'isOfLinears' | 'over'> {
    const heads = headsAround(call);
    const loops = heads.filter(({ keyword }) => keyword === 'for' || keyword === 'while');
    return {
      isInLoop: loops.length > 0,
      over: this.#iteratedBy(loops.find(({ parts }) => parts.length > 0)?.parts ?? []),
      isOfLinears: heads.some(({ parts }) => this.#asksForLinear(parts)),
    };
  }

  /** Returns the last attribute of the name over which a loop goes: 'experts' for `for e in self.model.experts:`. */
  #iteratedBy(head: Expression): string | null {
    let node = head[head.findIndex(({ name }) => name === 'in') + 1] ?? null;
    while (node !== null && node.name !== 'CallExpression') {
      const name = this.#syntax.dottedName([node]);
      if (name !== null) return name.includes('.') ? (name.split('.').at(-1) ?? null) : null;
      node = node.firstChild;
    }
    return null;
  }

  /** Whether nodes ask if a module is a Linear: isinstance(module, nn.Linear). */
  #asksForLinear(nodes: Expression): boolean {
    return this.#syntax.nodes(CALLS, nodes).some((call) => {
      const classes = this.#syntax.argumentsOf(call).at(-1)?.value ?? [];
      return (
        this.#syntax.calleeOf(call) === 'isinstance' && /(^|\.)Linear$/.test(this.#syntax.textOf(classes))
      );
    });
  }

  /** Returns a call of a known function, also through functools.partial; null if the function is not known. */
  #callOf(site: SyntaxNode) {
    const callee = this.#syntax.calleeOf(site);
    const full = callee === null ? null : (this.#fullName(callee) ?? methodOf(callee));
    if (callee === null || full === null) return null;
    if (!/(^|\.)partial$/.test(full)) return this.#known(full, callee, () => this.#syntax.argumentsOf(site));
    const [first, ...rest] = this.#syntax.argumentsOf(site);
    const written = first?.name === null ? this.#syntax.dottedName(first.value) : null;
    const inner = written === null ? null : this.#fullName(written);
    if (first === undefined || written === null || inner === null) return null;
    return this.#known(inner, written, () => [{ ...first, name: '(partial)' }, ...rest]);
  }

  #known(full: string, written: string, given: () => readonly Argument[]) {
    const name = this.#ownName(full);
    return name === null ? null : { name, written, given: given() };
  }

  /** Returns the full name of a name of PyTorch, also if the file does not import it; null if the name is not PyTorch's. */
  #fullName(name: string): string | null {
    const full = this.#names.imported(name);
    if (full !== null) return this.#isKnown(full) ? full : null;
    return this.#names.isOwn(name) ? null : name;
  }

  /** Whether a full name is one of a known module. */
  #isKnown(full: string): boolean {
    return this.#modules.some((module) => full === module || full.startsWith(`${module}.`));
  }

  #ownName(full: string): string | null {
    const last = full.split('.').at(-1) ?? '';
    const name = Object.hasOwn(SHORT, last) ? (SHORT[last] ?? last) : last;
    return Object.hasOwn(this.#signatures, name) ? name : null;
  }

  /** Returns arguments with their names; each entry of a dict after ** becomes an argument. */
  #argumentsOf(callee: string, given: readonly Argument[], depth: number): readonly PythonArgument[] {
    const names = this.#signatures[callee] ?? [];
    const positional = given.filter(({ name }) => name === null);
    return given.flatMap((argument): readonly PythonArgument[] => {
      const { name, value } = argument;
      if (name === '(partial)') return [];
      if (name === '**') return this.#spread(value, depth);
      const at = positional.indexOf(argument);
      const position = given[0]?.name === '(partial)' ? at + 1 : at;
      return [this.#argument(name ?? names[position] ?? position + 1, value, depth)];
    });
  }

  #spread(value: Expression, depth: number): readonly PythonArgument[] {
    const bare = bareOf(value);
    const name = this.#syntax.dottedName(bare);
    const followed = (name === null ? null : this.#names.valueOf(name)) ?? bare;
    const entries = depth === 0 ? null : this.#syntax.entriesIn(bareOf(followed));
    if (entries === null) return [{ ...this.#argument('**', value, depth), meant: NOT_KNOWN }];
    return entries.flatMap((entry) =>
      entry.name === '**'
        ? this.#spread(entry.value, depth - 1)
        : [this.#argument(entry.name ?? '*', entry.value, depth)],
    );
  }

  #argument(name: string | number, value: Expression, depth: number): PythonArgument {
    const bare = bareOf(value);
    const literal = this.#syntax.literalOf(bare);
    const written = literal === undefined ? this.#syntax.textOf(bare).replaceAll(/\s+/g, ' ') : literal;
    return { name, line: this.#syntax.lineOf(bare), written, meant: this.#meant(bare, depth) };
  }

  #meant(value: Expression, depth: number): unknown {
    if (++this.#numRead > MOST_EXPRESSIONS || depth === 0) return NOT_KNOWN;
    const bare = bareOf(value);
    const inner = (one: Expression): unknown => this.#meant(one, depth - 1);
    if (bare.some(({ name }) => name === ',')) return listed(bare).map(inner);
    const [node, ...more] = bare;
    if (node === undefined || more.length > 0) return NOT_KNOWN;
    const literal = this.#syntax.literalOf(bare);
    if (literal !== undefined) return literal;
    switch (node.name) {
      case 'ArrayExpression':
      case 'TupleExpression':
      case 'SetExpression':
        return listed(innerOf(node)).map(inner);
      case 'CallExpression':
        return this.#meantCall(node, depth);
      case 'VariableName':
      case 'MemberExpression': {
        const name = this.#syntax.dottedName(bare);
        if (name !== null) return this.#meantName(name, inner);
        const of = node.getChild('[') === null ? NOT_KNOWN : inner(partsOf(node).slice(0, 1));
        return isCalled(of) ? { ...of, item: inner(innerOf(node)) } : NOT_KNOWN;
      }
      default:
        return NOT_KNOWN;
    }
  }

  #meantName(name: string, inner: (value: Expression) => unknown): unknown {
    const known = this.#names.valueOf(name);
    if (known !== null) return inner(known);
    const full = this.#fullName(name);
    return full === null || (full === name && !/^torch\.|^[A-Z]\w+\.[_A-Z]+$/.test(full)) ? NOT_KNOWN : full;
  }

  #meantCall(node: SyntaxNode, depth: number): unknown {
    if (/^(int|float|set)$/.test(this.#syntax.calleeOf(node) ?? '')) {
      const [first, ...more] = this.#syntax.argumentsOf(node);
      if (first !== undefined && more.length === 0) return this.#meant(first.value, depth - 1);
    }
    const call = this.#callOf(node);
    if (call === null) return NOT_KNOWN;
    const args = this.#argumentsOf(call.name, call.given, depth - 1);
    return {
      call: call.name,
      given: Object.fromEntries(args.map(({ name, meant }) => [name, meant])),
      from: node.from,
    } satisfies Called;
  }
}

/** Whether a value is a call. */
export function isCalled(value: unknown): value is Called {
  return typeof value === 'object' && value !== null && 'call' in value;
}

/** Returns a method of models and accelerators that is read whatever object it is called on; null for other names. */
function methodOf(written: string): string | null {
  return /\.clip_grad_norm_$/.test(written) ? 'clip_grad_norm_' : null;
}

/** The keyword of a loop or a condition, and the nodes between the keyword and the statements in it. */
interface Head {
  readonly keyword: string;
  readonly parts: Expression;
}

/** Returns the loops and conditions around a node, the innermost first. */
function headsAround(node: SyntaxNode): readonly Head[] {
  const heads: Head[] = [];
  let inner = node;
  for (let parent = node.parent; parent !== null; parent = parent.parent) {
    if (/^(If|For|While)Statement$/.test(parent.name)) {
      const { from } = inner;
      const before = partsOf(parent).filter((part) => part.from <= from);
      const at = before.findLastIndex(({ name }) => /^(if|elif|else|for|while)$/.test(name));
      const parts = before.slice(at + 1).filter(({ name }) => name !== 'Body');
      heads.push({ keyword: before[at]?.name ?? '', parts });
    } else if (parent.getChild('for') !== null) {
      // A comprehension.
      heads.push({ keyword: 'for', parts: [] });
    }
    inner = parent;
  }
  return heads;
}

import { NOT_KNOWN } from '../rows/meant';
import { type Argument, argumentsOf, dottedName, type Expression } from './expressions';
import { entriesIn, type Names, namesOf } from './names';
import { afterBracket, PythonLexer, type Statement, type Token } from './tokens';

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

/** Usual short names of functions, for files that do not import the functions. */
const SHORT: Readonly<Record<string, string>> = {
  FSDP: 'FullyShardedDataParallel',
  DDP: 'DistributedDataParallel',
};

/** Modules whose names are known here. */
const KNOWN = /^(torch|accelerate|functools|transformers|trl|peft|megatron\.core\.tensor_parallel)(\.|$)/;

/** A name is followed through at most this number of assignments. */
const MOST_NAMES = 8;
/** At most this number of expressions is read; names that stand for lists of names would otherwise multiply without end. */
const MOST_EXPRESSIONS = 200_000;

/** A file of Python, from which calls are read. */
export class PythonFile {
  readonly #text: string;
  readonly #statements: readonly Statement[];
  readonly #names: Names;
  readonly #signatures: Signatures;
  #numRead = 0;

  constructor(text: string, file: string, signatures: Signatures) {
    this.#text = text;
    this.#statements = new PythonLexer(text, file).statements();
    this.#names = namesOf(this.#statements);
    this.#signatures = signatures;
  }

  /** Returns the calls of known functions, in the order of the file. */
  calls(): readonly PythonCall[] {
    const heads: Head[] = [];
    return this.#statements.flatMap(({ indent, tokens }) => {
      while ((heads.at(-1)?.indent ?? -1) >= indent) heads.pop();
      const [first] = tokens;
      const isLoop = first?.text === 'for' || first?.text === 'while';
      if (isLoop || first?.text === 'if')
        heads.push({ indent, isLoop, over: iteratedBy(tokens), isOfLinears: asksForLinear(tokens) });
      const isInLoop = heads.some((head) => head.isLoop);
      return this.#callsIn(tokens).map((call) => ({
        ...call,
        isInLoop: isInLoop || call.isInLoop,
        over: heads.findLast((head) => head.isLoop)?.over ?? null,
        isOfLinears: heads.some((head) => head.isOfLinears),
      }));
    });
  }

  /** Returns modules other than PyTorch's from which a known function is imported and called, with the line. */
  others(): readonly { readonly name: string; readonly line: number }[] {
    return this.#statements.flatMap(({ tokens }) =>
      tokens.flatMap((token, at) => {
        if (!isName(tokens, at)) return [];
        const { name, end } = dottedName(tokens, at);
        const full = this.#names.imported(name);
        const isOther = tokens[end]?.text === '(' && full !== null && !KNOWN.test(full);
        return isOther && this.#ownName(full) !== null ? [{ name: full, line: token.line }] : [];
      }),
    );
  }

  #callsIn(tokens: readonly Token[]): readonly Omit<PythonCall, 'isOfLinears' | 'over'>[] {
    return tokens.flatMap((token, at) => {
      if (!isName(tokens, at)) return [];
      const { name: written, end } = dottedName(tokens, at);
      if (tokens[end]?.text !== '(') return [];
      const close = afterBracket(tokens, end);
      const call = this.#callOf(written, argumentsOf(tokens.slice(end + 1, close - 1)));
      if (call === null) return [];
      const isOfList = isWithinFor(tokens, at);
      const given = this.#argumentsOf(call.name, call.given, MOST_NAMES);
      return [{ ...call, given, line: token.line, from: token.from, isInLoop: isOfList }];
    });
  }

  /** Returns a call of a known function, also through functools.partial; null if the function is not known. */
  #callOf(written: string, given: readonly Argument[]) {
    const full = this.#fullName(written) ?? methodOf(written);
    if (full === null) return null;
    const [first, ...rest] = given;
    if (/(^|\.)partial$/.test(full)) {
      if (first?.name !== null || first.value.kind !== 'name') return null;
      const inner = this.#fullName(first.value.name);
      const name = inner === null ? null : this.#ownName(inner);
      return name === null
        ? null
        : { name, written: first.value.name, given: [{ name: '(partial)', value: first.value }, ...rest] };
    }
    const name = this.#ownName(full);
    return name === null ? null : { name, written, given };
  }

  /** Returns the full name of a name of PyTorch, also if the file does not import it; null if the name is not PyTorch's. */
  #fullName(name: string): string | null {
    const full = this.#names.imported(name);
    if (full !== null) return KNOWN.test(full) ? full : null;
    return this.#names.isOwn(name) ? null : name;
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
    const entries = depth === 0 ? null : entriesIn(this.#followed(value));
    if (entries === null)
      return [{ name: '**', line: value.line, written: this.#written(value), meant: NOT_KNOWN }];
    return entries.flatMap(({ name, value: inner }) =>
      name === '**' ? this.#spread(inner, depth - 1) : [this.#argument(name ?? '*', inner, depth)],
    );
  }

  #argument(name: string | number, value: Expression, depth: number): PythonArgument {
    return { name, line: value.line, written: this.#written(value), meant: this.#meant(value, depth) };
  }

  #written(value: Expression): unknown {
    if (value.kind === 'literal') return value.value;
    return this.#text.slice(value.from, value.to).replaceAll(/\s+/g, ' ');
  }

  /** Returns the expression for which a name stands. */
  #followed(value: Expression): Expression {
    return (value.kind === 'name' ? this.#names.valueOf(value.name) : null) ?? value;
  }

  #meant(value: Expression, depth: number): unknown {
    if (depth === 0 || ++this.#numRead > MOST_EXPRESSIONS) return NOT_KNOWN;
    const inner = (one: Expression): unknown => this.#meant(one, depth - 1);
    switch (value.kind) {
      case 'literal':
        return value.value;
      case 'list':
        return value.items.map(inner);
      case 'dict':
      case 'computed':
        return NOT_KNOWN;
      case 'name': {
        const known = this.#names.valueOf(value.name);
        if (known !== null) return inner(known);
        const full = this.#fullName(value.name);
        return full === null || (full === value.name && !/^torch\.|^[A-Z]\w+\.[_A-Z]+$/.test(full))
          ? NOT_KNOWN
          : full;
      }
      case 'item': {
        const of = inner(value.of);
        return isCalled(of) ? { ...of, item: inner(value.index) } : NOT_KNOWN;
      }
      case 'call':
        return this.#meantCall(value, depth);
      default:
        return value satisfies never;
    }
  }

  #meantCall(value: Expression & { readonly kind: 'call' }, depth: number): unknown {
    const { callee, given } = value;
    const [first] = given;
    if (
      (callee === 'int' || callee === 'float' || callee === 'set') &&
      first !== undefined &&
      given.length === 1
    )
      return this.#meant(first.value, depth - 1);
    const call = this.#callOf(callee, given);
    if (call !== null) {
      const args = this.#argumentsOf(call.name, call.given, depth - 1).map(({ name, meant }) => [
        name,
        meant,
      ]);
      return { call: call.name, given: Object.fromEntries(args), from: value.from } satisfies Called;
    }
    return NOT_KNOWN;
  }
}

/** Whether a value is a call. */
export function isCalled(value: unknown): value is Called {
  return typeof value === 'object' && value !== null && 'call' in value;
}

/** Whether a name begins at an index; attributes, keywords and names of definitions are not such names. */
function isName(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1];
  return (
    tokens[at]?.kind === 'name' && before?.text !== '.' && before?.text !== 'def' && before?.text !== 'class'
  );
}

/** Returns a method of models and accelerators that is read whatever object it is called on; null for other names. */
function methodOf(written: string): string | null {
  return /\.clip_grad_norm_$/.test(written) ? 'clip_grad_norm_' : null;
}

/** A loop or a condition around statements. */
interface Head extends Pick<PythonCall, 'isOfLinears' | 'over'> {
  readonly indent: number;
  readonly isLoop: boolean;
}

/** Returns the last attribute of the name over which a loop goes: 'experts' for `for e in self.model.experts:`. */
function iteratedBy(tokens: readonly Token[]): string | null {
  const at = tokens.findIndex(({ text }) => text === 'in');
  if (at < 0 || !isName(tokens, at + 1)) return null;
  const { name, end } = dottedName(tokens, at + 1);
  const parts = name.split('.');
  return parts.length > 1 && tokens[end]?.text !== '(' ? (parts.at(-1) ?? null) : null;
}

/** Whether tokens ask if a module is a Linear: isinstance(module, nn.Linear). */
function asksForLinear(tokens: readonly Token[]): boolean {
  return tokens.some(({ text }, at) => {
    if (text !== 'isinstance') return false;
    const asked = tokens.slice(at, afterBracket(tokens, at + 1));
    return asked.at(-2)?.text === 'Linear';
  });
}

/** Whether brackets around a token have a `for`. */
function isWithinFor(tokens: readonly Token[], at: number): boolean {
  let depth = 0;
  for (let index = at - 1; index >= 0; index--) {
    const { kind, text } = tokens[index] as Token; // `index` is within the list
    if (kind !== 'sign') continue;
    if (')]}'.includes(text)) depth += 1;
    if (!'([{'.includes(text)) continue;
    depth -= 1;
    if (depth >= 0) continue;
    depth = 0;
    const within = tokens.slice(index + 1, afterBracket(tokens, index) - 1);
    if (hasOwnFor(within)) return true;
  }
  return false;
}

/** Whether tokens have a `for` outside of brackets. */
function hasOwnFor(tokens: readonly Token[]): boolean {
  for (let at = 0; at < tokens.length; ) {
    const { kind, text } = tokens[at] as Token; // `at` is within the list
    if (kind === 'name' && text === 'for') return true;
    at = kind === 'sign' && '([{'.includes(text) ? afterBracket(tokens, at) : at + 1;
  }
  return false;
}

import ts from 'typescript';
import type { MessagePattern, Messages } from './message-patterns';

/** A part of a text: a string, or an expression whose value is not known. */
type Piece = string | ts.Expression;
interface Text {
  readonly pieces: readonly Piece[];
  /** Whether the first sentence has ended. */
  readonly closed: boolean;
}
type Bindings = ReadonlyMap<ts.Symbol, ts.Expression>;

/** Files with the names of recorded runs, which are names in messages too. */
const NAMES_OF_RUNS = /^src\/claims\/.*\/runs\.ts$/;
/** Properties whose texts are messages. */
const MESSAGE_KEYS: readonly string[] = ['message', 'error', 'evalue'];
const MOST_VARIANTS = 6;
const MOST_DEPTH = 6;

/** Follows the texts of errors backwards, from the constructor to the strings of which they are made. */
export class Flow {
  readonly #checker: ts.TypeChecker;
  readonly #root: string;
  readonly #files: readonly ts.SourceFile[];
  /** The calls of functions and the constructions of classes, by name. */
  readonly #calls = new Map<string, (ts.CallExpression | ts.NewExpression)[]>();
  /** The values that objects give to properties, by the property's name. */
  readonly #assignments = new Map<string, ts.PropertyAssignment[]>();
  readonly #sentences = new Map<string, MessagePattern>();
  readonly #phrases = new Map<string, MessagePattern>();
  readonly #unknown: string[] = [];
  readonly #seen = new Set<ts.Node>();
  readonly #asked = new Set<ts.Node>();

  constructor(checker: ts.TypeChecker, root: string, files: readonly ts.SourceFile[]) {
    this.#checker = checker;
    this.#root = root;
    this.#files = files;
  }

  /** Returns what the errors of the files say. */
  messages(): Messages {
    const sinks: { readonly text: ts.Expression; readonly code: string }[] = [];
    const shorthands: ts.ShorthandPropertyAssignment[] = [];
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
        const name = calleeName(node.expression);
        const calls = this.#calls.get(name);
        if (calls === undefined) this.#calls.set(name, [node]);
        else calls.push(node);
        const sink = sinkOf(node);
        if (sink !== null) sinks.push(sink);
      }
      if (ts.isPropertyAssignment(node) && ts.isIdentifier(node.name)) {
        this.#assignments.set(node.name.text, [...(this.#assignments.get(node.name.text) ?? []), node]);
        if (MESSAGE_KEYS.includes(node.name.text)) sinks.push({ text: node.initializer, code: '' });
        if (node.name.text === 'conflict')
          for (const text of this.#returnsOf(node.initializer)) sinks.push({ text, code: 'CONFIG' });
      }
      if (ts.isShorthandPropertyAssignment(node) && MESSAGE_KEYS.includes(node.name.text))
        shorthands.push(node);
      ts.forEachChild(node, visit);
    };
    for (const file of this.#files) visit(file);
    for (const { text, code } of sinks) this.#sink(text, code);
    for (const { name } of shorthands)
      for (const text of [...this.#initialOf(name), ...this.#givenFor(name)]) this.#sink(text, '');
    const inOrder = (patterns: Map<string, MessagePattern>): MessagePattern[] =>
      [...patterns.values()].sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
    for (const [pattern, { file }] of this.#phrases)
      if (this.#sentences.has(pattern) || NAMES_OF_RUNS.test(file)) this.#phrases.delete(pattern);
    return { sentences: inOrder(this.#sentences), phrases: inOrder(this.#phrases), unknown: this.#unknown };
  }

  /** What a function, or a name of a function, returns. */
  #returnsOf(value: ts.Expression): ts.Expression[] {
    if (ts.isArrowFunction(value)) return returnsOf(value);
    const declaration = ts.isIdentifier(value) ? functionOf(this.#symbol(value)?.valueDeclaration) : null;
    return declaration === null ? [] : returnsOf(declaration);
  }

  /** The value of a constant that a shorthand property names. */
  #initialOf(name: ts.Identifier): ts.Expression[] {
    const declaration = this.#symbol(name)?.valueDeclaration;
    const isConst = declaration !== undefined && ts.isVariableDeclaration(declaration);
    return isConst && declaration.initializer !== undefined && hasText(declaration.initializer)
      ? [declaration.initializer]
      : [];
  }

  /** Adds the sentences that an expression can be. */
  #sink(expression: ts.Expression, code: string): void {
    if (this.#seen.has(expression)) return;
    this.#seen.add(expression);
    if (expression.kind === ts.SyntaxKind.NullKeyword) return;
    for (const text of this.#texts(expression, new Map(), 0)) {
      const [only] = text.pieces;
      if (text.pieces.every((piece) => typeof piece !== 'string' || !/\p{L}{2}/u.test(piece))) {
        if (text.pieces.length === 1 && only !== undefined && typeof only !== 'string')
          this.#follow(only, code);
        else {
          this.#unknown.push(`${this.#where(expression)}: ${expression.getText().slice(0, 120)}`);
          for (const piece of text.pieces) if (typeof piece !== 'string') this.#collectPhrases(piece);
        }
        continue;
      }
      this.#add(this.#sentences, text, expression, code);
      for (const piece of text.pieces) if (typeof piece !== 'string') this.#collectPhrases(piece);
    }
  }

  /** Adds the sentences of a message that is a parameter, at the places that give it. */
  #follow(expression: ts.Expression, code: string): void {
    const given = this.#givenFor(expression);
    if (given.length === 0)
      this.#unknown.push(`${this.#where(expression)}: ${expression.getText().slice(0, 120)}`);
    for (const argument of given) this.#sink(argument, code);
  }

  #collectPhrases(expression: ts.Expression): void {
    if (this.#asked.has(expression)) return;
    this.#asked.add(expression);
    for (const text of this.#texts(expression, new Map(), 0)) {
      if (isPhrase(text)) this.#add(this.#phrases, text, expression, '');
      for (const piece of text.pieces) {
        if (typeof piece === 'string') continue;
        if (piece !== expression) this.#collectPhrases(piece);
        for (const value of this.#valuesOfTable(piece)) this.#collectPhrases(value);
        for (const argument of this.#givenFor(piece)) this.#collectPhrases(argument);
      }
    }
  }

  /** The arguments that calls give for an expression that is a parameter, and the values of properties that it reads. */
  #givenFor(expression: ts.Expression): ts.Expression[] {
    if (ts.isPropertyAccessExpression(expression)) return this.#assignedTo(expression);
    if (!ts.isIdentifier(expression)) return [];
    const declaration = this.#symbol(expression)?.valueDeclaration;
    if (declaration !== undefined && ts.isBindingElement(declaration)) return this.#taken(declaration);
    if (declaration === undefined || !ts.isParameter(declaration)) return [];
    const owner = declaration.parent;
    const index = owner.parameters.indexOf(declaration);
    return this.#callsOf(owner).flatMap((call) => {
      const given = call.arguments ?? [];
      const spread = given.findIndex(ts.isSpreadElement);
      const list = given[spread];
      if (list !== undefined && ts.isSpreadElement(list) && spread <= index)
        return this.#elementsOf(list.expression, index - spread, 0);
      return given[index] ?? [];
    });
  }

  /** The values of a name that is taken out of an object, as `{ none }`, or out of a list, as `[kind, advice]`. */
  #taken(element: ts.BindingElement): ts.Expression[] {
    const { parent: pattern, propertyName, name } = element;
    if (ts.isArrayBindingPattern(pattern)) {
      const { parent: declaration } = pattern;
      const list = ts.isVariableDeclaration(declaration) ? declaration.initializer : undefined;
      return list === undefined ? [] : this.#elementsOf(list, pattern.elements.indexOf(element), 0);
    }
    const key = propertyName ?? name;
    if (!ts.isIdentifier(key)) return [];
    const property = this.#checker.getTypeAtLocation(pattern).getProperty(key.text);
    return property === undefined ? [] : this.#assignedAs(property);
  }

  /** The elements with an index of the lists that an expression can be. */
  #elementsOf(list: ts.Expression, index: number, depth: number): ts.Expression[] {
    if (depth > MOST_DEPTH) return [];
    const inner = (node: ts.Expression): ts.Expression[] => this.#elementsOf(node, index, depth + 1);
    if (ts.isArrayLiteralExpression(list)) {
      const element = list.elements[index];
      return element === undefined || list.elements.some(ts.isSpreadElement) ? [] : [element];
    }
    if (ts.isConditionalExpression(list)) return [...inner(list.whenTrue), ...inner(list.whenFalse)];
    if (ts.isBinaryExpression(list)) return [...inner(list.left), ...inner(list.right)];
    const symbol = ts.isCallExpression(list) ? this.#symbol(list.expression) : this.#symbol(list);
    const declaration = symbol?.valueDeclaration;
    if (ts.isCallExpression(list)) {
      const called = functionOf(declaration);
      return called === null ? [] : returnsOf(called).flatMap(inner);
    }
    const isConst = declaration !== undefined && ts.isVariableDeclaration(declaration);
    return isConst && declaration.initializer !== undefined ? inner(declaration.initializer) : [];
  }

  /** The values that objects give to the property that an expression reads. */
  #assignedTo(access: ts.PropertyAccessExpression): ts.Expression[] {
    const property = this.#symbol(access);
    return property === undefined ? [] : this.#assignedAs(property);
  }

  /** The values that objects give to a property of ours. */
  #assignedAs({ name, declarations = [] }: ts.Symbol): ts.Expression[] {
    if (!declarations.some((declaration) => this.#files.includes(declaration.getSourceFile()))) return [];
    return (this.#assignments.get(name) ?? []).flatMap(({ parent, initializer }) => {
      if (!hasText(initializer)) return [];
      const type = this.#checker.getContextualType(parent);
      const property = type && this.#checker.getNonNullableType(type).getProperty(name);
      const isSame = property?.declarations?.some((declaration) => declarations.includes(declaration));
      return isSame === true ? [initializer] : [];
    });
  }

  /** The values of a constant object from which an expression reads a value by a key. */
  #valuesOfTable(expression: ts.Expression): ts.Expression[] {
    const isRead = ts.isCallExpression(expression) && expression.expression.getText() === 'ownValue';
    const table = isRead
      ? expression.arguments[0]
      : ts.isElementAccessExpression(expression)
        ? expression.expression
        : undefined;
    const declaration = table === undefined ? undefined : this.#symbol(table)?.valueDeclaration;
    if (declaration === undefined || !ts.isVariableDeclaration(declaration)) return [];
    const { initializer } = declaration;
    if (initializer === undefined || !ts.isObjectLiteralExpression(initializer)) return [];
    return initializer.properties.flatMap((property) =>
      ts.isPropertyAssignment(property) ? [property.initializer] : [],
    );
  }

  #callsOf(owner: ts.SignatureDeclaration): readonly (ts.CallExpression | ts.NewExpression)[] {
    const named = ts.isConstructorDeclaration(owner)
      ? owner.parent.name
      : ts.isArrowFunction(owner) && ts.isVariableDeclaration(owner.parent)
        ? owner.parent.name
        : owner.name;
    if (named === undefined || !(ts.isIdentifier(named) || ts.isPrivateIdentifier(named))) return [];
    const symbol = this.#checker.getSymbolAtLocation(named);
    return (this.#calls.get(named.text) ?? []).filter((call) => this.#symbol(call.expression) === symbol);
  }

  /** All texts that an expression can be, each up to the end of its first sentence. */
  #texts(expression: ts.Expression, bindings: Bindings, depth: number): Text[] {
    const hole: Text = { pieces: [expression], closed: false };
    if (depth > MOST_DEPTH) return [hole];
    const inner = (node: ts.Expression): Text[] => this.#texts(node, bindings, depth + 1);
    if (ts.isStringLiteralLike(expression)) return [cut(expression.text)];
    if (
      ts.isParenthesizedExpression(expression) ||
      ts.isAsExpression(expression) ||
      ts.isNonNullExpression(expression)
    )
      return inner(expression.expression);
    if (ts.isConditionalExpression(expression))
      return [...inner(expression.whenTrue), ...inner(expression.whenFalse)];
    if (ts.isTemplateExpression(expression)) return this.#template(expression, bindings, depth);
    if (ts.isBinaryExpression(expression)) {
      const { kind } = expression.operatorToken;
      const [left, right] = [expression.left, expression.right];
      if (kind === ts.SyntaxKind.PlusToken && this.#isText(expression))
        return joined(inner(left), right, () => this.#inlined(right, bindings, depth));
      if (kind === ts.SyntaxKind.QuestionQuestionToken || kind === ts.SyntaxKind.BarBarToken)
        return [...inner(left), ...inner(right)];
      return [hole];
    }
    if (ts.isIdentifier(expression)) return this.#named(expression, bindings, depth) ?? [hole];
    if (ts.isCallExpression(expression)) return this.#called(expression, bindings, depth) ?? [hole];
    return [hole];
  }

  #template(template: ts.TemplateExpression, bindings: Bindings, depth: number): Text[] {
    let texts: Text[] = [cut(template.head.text)];
    for (const span of template.templateSpans) {
      texts = joined(texts, span.expression, () => this.#inlined(span.expression, bindings, depth));
      texts = joined(texts, span.expression, () => [cut(span.literal.text)]);
    }
    return texts;
  }

  /** The texts of a part of a larger text; a part that has many is a hole. */
  #inlined(expression: ts.Expression, bindings: Bindings, depth: number): Text[] {
    const texts = this.#texts(expression, bindings, depth + 1);
    const isHole = texts.some(
      (text) => text.pieces.length > 0 && text.pieces.every((piece) => typeof piece !== 'string'),
    );
    return isHole || texts.length > 3 ? [{ pieces: [expression], closed: false }] : texts;
  }

  #named(name: ts.Identifier, bindings: Bindings, depth: number): Text[] | null {
    const symbol = this.#symbol(name);
    if (symbol === undefined) return null;
    const bound = bindings.get(symbol);
    if (bound !== undefined) return this.#texts(bound, new Map(), depth + 1);
    const declaration = symbol.valueDeclaration;
    if (
      declaration === undefined ||
      !ts.isVariableDeclaration(declaration) ||
      !ts.isIdentifier(declaration.name)
    )
      return null;
    const isConst = (declaration.parent.flags & ts.NodeFlags.Const) !== 0;
    if (!isConst || declaration.initializer === undefined) return null;
    const texts = this.#texts(declaration.initializer, bindings, depth + 1);
    return texts.some((text) => text.pieces.some((piece) => typeof piece === 'string')) ? texts : null;
  }

  /** The texts that a function of ours returns, or the first line of a joined list. */
  #called(call: ts.CallExpression, bindings: Bindings, depth: number): Text[] | null {
    const callee = call.expression;
    if (ts.isPropertyAccessExpression(callee) && callee.name.text === 'join') {
      const list = callee.expression;
      const [separator] = call.arguments;
      const [first] = ts.isArrayLiteralExpression(list) ? list.elements : [];
      const isLines =
        separator !== undefined && ts.isStringLiteralLike(separator) && separator.text.startsWith('\n');
      const line = first ?? mappedBy(list);
      if (line === undefined || ts.isSpreadElement(line) || !isLines) return null;
      return this.#texts(line, bindings, depth + 1).map((text) => ({ ...text, closed: true }));
    }
    const declaration = this.#symbol(callee)?.valueDeclaration;
    const body = functionOf(declaration);
    if (body === null || /\/src\/(?:core|figures)\//.test(body.getSourceFile().fileName)) return null;
    const own = new Map(bindings);
    body.parameters.forEach((parameter, i) => {
      const symbol = ts.isIdentifier(parameter.name)
        ? this.#checker.getSymbolAtLocation(parameter.name)
        : undefined;
      const argument = call.arguments[i];
      if (symbol !== undefined && argument !== undefined)
        own.set(symbol, resolved(argument, bindings, this.#checker));
    });
    const texts = returnsOf(body).flatMap((result) => this.#texts(result, own, depth + 1));
    const isKnown = texts.some((text) => text.pieces.some((piece) => typeof piece === 'string'));
    return isKnown ? texts : null;
  }

  #add(to: Map<string, MessagePattern>, text: Text, at: ts.Node, code: string): void {
    const holes: string[] = [];
    let pattern = '';
    for (const piece of text.pieces) {
      if (typeof piece === 'string') pattern += piece;
      else {
        pattern += `{${holes.length}}`;
        holes.push(piece.getText().replaceAll(/\s+/g, ' ').slice(0, 120));
      }
    }
    pattern = pattern.trim();
    const [file = '', line = ''] = this.#where(at).split(':');
    if (pattern !== '' && !to.has(pattern))
      to.set(pattern, { code, file, line: Number(line), pattern, holes });
  }

  #symbol(node: ts.Node): ts.Symbol | undefined {
    const symbol = ts.isShorthandPropertyAssignment(node.parent)
      ? this.#checker.getShorthandAssignmentValueSymbol(node.parent)
      : this.#checker.getSymbolAtLocation(ts.isPropertyAccessExpression(node) ? node.name : node);
    if (symbol === undefined) return undefined;
    return (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : this.#checker.getAliasedSymbol(symbol);
  }

  #isText(node: ts.Expression): boolean {
    return (this.#checker.getTypeAtLocation(node).flags & ts.TypeFlags.StringLike) !== 0;
  }

  #where(node: ts.Node): string {
    const file = node.getSourceFile();
    const { line } = file.getLineAndCharacterOfPosition(node.getStart());
    return `${file.fileName.slice(this.#root.length + 1)}:${line + 1}`;
  }
}

/** What an arrow function makes of each element, for list.map(function). */
function mappedBy(list: ts.Expression): ts.Expression | undefined {
  const isMap =
    ts.isCallExpression(list) &&
    ts.isPropertyAccessExpression(list.expression) &&
    list.expression.name.text === 'map';
  const [mapped] = isMap ? list.arguments : [];
  return mapped !== undefined && ts.isArrowFunction(mapped) && !ts.isBlock(mapped.body)
    ? mapped.body
    : undefined;
}

/** Whether an expression is made of strings in place, so that its text can be read. */
function hasText(node: ts.Expression): boolean {
  if (ts.isConditionalExpression(node)) return hasText(node.whenTrue) || hasText(node.whenFalse);
  if (ts.isCallExpression(node)) return ts.isIdentifier(node.expression);
  return ts.isStringLiteralLike(node) || ts.isTemplateExpression(node) || ts.isBinaryExpression(node);
}

/** The last name of what is called: 'train' for job.train(…). */
function calleeName(callee: ts.Expression): string {
  if (ts.isIdentifier(callee)) return callee.text;
  return ts.isPropertyAccessExpression(callee) ? callee.name.text : '';
}

/** Whether a text has words of a sentence, and is neither a name nor a piece of code. */
function isPhrase({ pieces }: Text): boolean {
  const words = pieces.map((piece) => (typeof piece === 'string' ? piece : '{}')).join('');
  return /\p{Ll}{2}[\s,;]+\p{Ll}{2}|\ban? \p{L}|\p{Ll}{4} \{\}/u.test(words) && !/^[\w.]+\(/.test(words);
}

/** The message of a call that makes an error. */
function sinkOf(
  node: ts.CallExpression | ts.NewExpression,
): { readonly text: ts.Expression; readonly code: string } | null {
  const callee = node.expression;
  const [first, second] = node.arguments ?? [];
  // What is wrong with a line of another program's file.
  const isWrongLine = ts.isIdentifier(callee) && callee.text === 'effectOf' && first?.getText() === "'error'";
  if (isWrongLine && second !== undefined) return { text: second, code: 'CONFIG' };
  if (!ts.isNewExpression(node) || !ts.isIdentifier(callee)) return null;
  if (callee.text === 'ShardlabError' && second !== undefined)
    return { text: second, code: first !== undefined && ts.isStringLiteralLike(first) ? first.text : '' };
  if (first === undefined) return null;
  if (callee.text === 'ConfigError') return { text: first, code: 'CONFIG' };
  if (callee.text === 'SetUpError') return { text: first, code: 'ENGINE' };
  if (callee.text === 'InvalidArgumentError') return { text: first, code: 'USAGE' };
  return null;
}

/** The function that a declaration is, if its body can be read. */
function functionOf(declaration: ts.Declaration | undefined): ts.FunctionLikeDeclaration | null {
  if (declaration === undefined || declaration.getSourceFile().isDeclarationFile) return null;
  if (ts.isFunctionDeclaration(declaration)) return declaration;
  if (!ts.isVariableDeclaration(declaration) || declaration.initializer === undefined) return null;
  return ts.isArrowFunction(declaration.initializer) ? declaration.initializer : null;
}

/** The expressions that a function returns. */
function returnsOf(declaration: ts.FunctionLikeDeclaration): ts.Expression[] {
  const { body } = declaration;
  if (body === undefined) return [];
  if (!ts.isBlock(body)) return [body];
  const found: ts.Expression[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node)) return;
    if (ts.isReturnStatement(node) && node.expression !== undefined) found.push(node.expression);
    ts.forEachChild(node, visit);
  };
  ts.forEachChild(body, visit);
  return found;
}

/** An argument, or what is bound to it where it is a parameter of the function that calls. */
function resolved(argument: ts.Expression, bindings: Bindings, checker: ts.TypeChecker): ts.Expression {
  const symbol = ts.isIdentifier(argument) ? checker.getSymbolAtLocation(argument) : undefined;
  return (symbol === undefined ? undefined : bindings.get(symbol)) ?? argument;
}

/** Each text of `left` with each text of `right` behind it. */
function joined(left: readonly Text[], expression: ts.Expression, right: () => readonly Text[]): Text[] {
  const open = left.filter((text) => !text.closed);
  if (open.length === 0) return [...left];
  const after = right();
  const isMany = open.length * after.length > MOST_VARIANTS && after.length > 1;
  const used: readonly Text[] = isMany ? [{ pieces: [expression], closed: false }] : after;
  return left.flatMap((text) => (text.closed ? [text] : used.map((next) => appended(text, next))));
}

function appended(text: Text, next: Text): Text {
  const pieces = [...text.pieces];
  const [head, ...rest] = next.pieces;
  const last = pieces.at(-1);
  if (typeof head === 'string' && typeof last === 'string') {
    const both = cut(last + head);
    pieces[pieces.length - 1] = both.pieces[0] ?? '';
    if (both.closed) return { pieces, closed: true };
    pieces.push(...rest);
  } else pieces.push(...next.pieces);
  return { pieces: pieces.filter((piece) => piece !== ''), closed: next.closed };
}

/** A text up to the end of its first sentence. */
function cut(text: string): Text {
  for (const { index, 0: found } of text.matchAll(/[.!?](?=\s)|\n/g)) {
    const before = text.slice(0, index);
    if (found !== '\n' && /(?:^|[\s(])(?:e\.g|i\.e|vs|etc|cf)$|\s$/.test(before)) continue;
    return { pieces: [found === '\n' ? before : before + found], closed: true };
  }
  return { pieces: [text], closed: false };
}

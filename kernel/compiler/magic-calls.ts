import ts from 'typescript';
import type { MagicCall } from './line-magics';

const { factory } = ts;

/** Name of the function that performs magics; the executor defines it (kernel/executor/magics). */
const MAGIC_FUNCTION = '__magic';

/** Statements and the offset in the cell at which they begin. */
export interface Piece {
  readonly start: number;
  readonly statements: readonly ts.Statement[];
}

/** Whether a statement that begins at `start` is in the body of `%timeit`. */
export function timeitAround(start: number, calls: readonly MagicCall[]): MagicCall | undefined {
  return calls.find((call) => call.name === 'timeit' && start >= call.from && start < call.end);
}

/**
 * Returns the calls of magics as pieces of a cell. `bodies` has the statements that each `%timeit` times, and `lastStart` is the
 * offset of the cell's last statement: the end of the cell ends its `%time` too.
 */
export function magicPieces(
  calls: readonly MagicCall[],
  bodies: ReadonlyMap<MagicCall, readonly ts.Statement[]>,
  lastStart: number,
): Piece[] {
  return calls.flatMap((call) => {
    const { name, text, start, from, end } = call;
    const place = (argument: string, body?: ts.Expression): ts.Expression =>
      ts.setSourceMapRange(callOf(name, argument, body), { pos: start, end: start + 1 });
    if (name === 'timeit')
      return [{ start: from, statements: [awaited(place(text, timedBody(bodies.get(call))))] }];
    if (name !== 'time') return [{ start, statements: [awaited(place(text))] }];
    const begin = { start, statements: [factory.createExpressionStatement(place('begin'))] };
    const finish = { start: end, statements: [factory.createExpressionStatement(place('end'))] };
    return lastStart >= end ? [begin, finish] : [begin];
  });
}

function callOf(name: string, text: string, body: ts.Expression | undefined): ts.Expression {
  const words = [name, text].map((word) => factory.createStringLiteral(word));
  const values = body === undefined ? words : [...words, body];
  return factory.createCallExpression(factory.createIdentifier(MAGIC_FUNCTION), undefined, values);
}

function awaited(call: ts.Expression): ts.Statement {
  return factory.createExpressionStatement(factory.createAwaitExpression(call));
}

/** A function that runs the statements and returns the value of the last one; it is async only if the code awaits. */
function timedBody(statements: readonly ts.Statement[] = []): ts.Expression {
  const last = statements.at(-1);
  const block =
    last !== undefined && ts.isExpressionStatement(last)
      ? [...statements.slice(0, -1), factory.createReturnStatement(last.expression)]
      : statements;
  const modifiers = statements.some(awaits)
    ? [factory.createModifier(ts.SyntaxKind.AsyncKeyword)]
    : undefined;
  const arrow = factory.createToken(ts.SyntaxKind.EqualsGreaterThanToken);
  const body = factory.createBlock(block, true);
  return factory.createArrowFunction(modifiers, undefined, [], undefined, arrow, body);
}

function awaits(node: ts.Node): boolean {
  if (ts.isAwaitExpression(node) || (ts.isForOfStatement(node) && node.awaitModifier !== undefined))
    return true;
  if (ts.isFunctionLike(node)) return false;
  return ts.forEachChild(node, awaits) === true;
}

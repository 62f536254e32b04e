import ts from 'typescript';
import type { CellError } from '../../src/cell/cell-error';

/**
 * TypeScript traverses a cell's tree recursively. If the tree is deeper than the stack (a sum of thousands of terms
 * nests one addition in another), returns `otherwise`.
 */
export function unlessTooDeep<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError && error.message.includes('call stack')) return otherwise();
    throw error;
  }
}

/** The error of a cell that is too deep; `name` is the cell's name, as "In[3]". */
export function depthError(source: string, name: string): CellError {
  const deepest = unlessTooDeep(
    () => deepestPlace(source),
    () => undefined,
  );
  const place = deepest === undefined ? '' : ` (${deepest.depth} levels in line ${deepest.line})`;
  const ename = 'CellTooDeep';
  const evalue =
    `${name} is nested deeper than the compiler can follow${place}; split it into several statements, ` +
    'or write a sum of many terms as a loop or as values.reduce((a, b) => a + b)';
  return { ename, evalue, traceback: [`${ename}: ${evalue}`], line: deepest?.line };
}

function deepestPlace(source: string): { readonly depth: number; readonly line: number } {
  const file = ts.createSourceFile('cell.mts', source, ts.ScriptTarget.ES2022, false, ts.ScriptKind.TS);
  const left: { readonly node: ts.Node; readonly depth: number }[] = [{ node: file, depth: 0 }];
  let deepest = { depth: 0, pos: 0 };
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { node, depth } = next;
    if (depth > deepest.depth) deepest = { depth, pos: node.getStart(file) };
    ts.forEachChild(node, (child) => void left.push({ node: child, depth: depth + 1 }));
  }
  return { depth: deepest.depth, line: ts.getLineAndCharacterOfPosition(file, deepest.pos).line + 1 };
}

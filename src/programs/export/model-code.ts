import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findInstallation } from '../../core';

/**
 * [Note: model.py of built-in models] A video model is too large for a script, so a bundle has it in model.py: the classes and functions
 * with which ranks of PyTorch train here (src/python/shardlab_torch), without those that nothing in the bundle uses. Engine torch has equal
 * losses with the same code.
 */

/** A statement at the top of a Python file, with the comments above it. */
interface Statement {
  /** The names that the statement defines. */
  readonly names: readonly string[];
  readonly text: string;
}

/** Returns model.py with the given names and all that they use, from files of shardlab_torch, which are named without '.py'. Throws: errors of the file system. */
export function modelCode(title: string, files: readonly string[], names: readonly string[]): string {
  const texts = files.map((file) =>
    readFileSync(join(findInstallation(), 'src', 'python', 'shardlab_torch', `${file}.py`), 'utf8'),
  );
  const statements = [JSON_TYPE, ...texts.flatMap(statementsOf)];
  const kept = usedBy(statements, names);
  const words = wordsOf(kept.map(({ text }) => text));
  const imports = texts.flatMap((text) => importsOf(text, words));
  const code = kept.map(({ text }) => text).join('\n\n\n');
  return `"""${title}"""\n\nfrom __future__ import annotations\n\n${[...new Set(imports)].sort().join('\n')}\n\n${code}\n`;
}

/** The type of sizes. */
const JSON_TYPE: Statement = { names: ['Json'], text: 'Json = dict[str, Any]' };

/** Splits a file into its statements, without imports and docstrings of the file. */
function statementsOf(text: string): readonly Statement[] {
  return text.split(/\n{2,}(?=\S)/).flatMap((block): readonly Statement[] => {
    // Constants and types follow each other without a blank line; comments belong to the statement below them.
    const isDefinition = /^(@.*\n)?(class|def) /m.test(block);
    const parts = isDefinition ? [block] : block.split(/\n(?=#)|(?<!^#.*)\n(?=[A-Z_]\w*(?:: .*)? = )/m);
    return parts.flatMap((part) => {
      const defined = [...part.matchAll(/^(?:class|def) (\w+)|^(\w+)(?:: .*)? = /gm)];
      const names = defined.flatMap(([, named, assigned]) => named ?? assigned ?? []);
      return names.length === 0 ? [] : [{ names, text: part.trimEnd() }];
    });
  });
}

/** Returns the statements that define some names, and those that these use, in their order. */
function usedBy(statements: readonly Statement[], names: readonly string[]): readonly Statement[] {
  const used = new Set(
    statements.filter((statement) => statement.names.some((name) => names.includes(name))),
  );
  for (let size = 0; size < used.size; ) {
    size = used.size;
    const words = wordsOf([...used].map(({ text }) => text));
    for (const statement of statements)
      if (statement.names.some((name) => words.has(name))) used.add(statement);
  }
  return statements.filter((statement) => used.has(statement));
}

/** Returns the imports of a file that code uses, without those of shardlab_torch itself. */
function importsOf(text: string, words: ReadonlySet<string>): readonly string[] {
  const lines = text.split('\n').filter((line) => /^(import|from) (?!\.|__future__)/.test(line));
  return [...lines, 'from typing import Any'].flatMap((line) => {
    const [, start = '', list = ''] = /^(from .* import |import )(.*)$/.exec(line) ?? [];
    const names = list
      .split(', ')
      .filter((name) => words.has(name.split(' as ').at(-1)?.split('.')[0] ?? ''));
    return names.map((name) => `${start}${name}`);
  });
}

/** Returns the names in code, without those of attributes, comments and texts. */
function wordsOf(texts: readonly string[]): ReadonlySet<string> {
  const plain = texts.map((text) => text.replaceAll(/"""[\s\S]*?"""|#.*/g, '').replaceAll(/"[^"\n]*"/g, ''));
  return new Set(plain.join('\n').match(/(?<![\w.])[A-Za-z_]\w*/g) ?? []);
}

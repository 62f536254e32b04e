import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, readFiles } from '../project/sources';

/** A block of code in a page. */
export interface Block {
  /** The page's path from the clone's root. */
  readonly page: string;
  /** The line on which the block's code begins, from 1. */
  readonly line: number;
  /** What follows the block's three backquotes: `ts`, `sh`. */
  readonly language: string;
  readonly code: string;
}

/** The blocks of README.md, CONTRIBUTING.md and all pages in docs, page by page and in their order. */
export function allBlocks(): readonly Block[] {
  const root = ['README.md', 'CONTRIBUTING.md'].map((page) => [page, readFileSync(join(ROOT, page), 'utf8')]);
  return [...root, ...readFiles(['docs'], '.md')].flatMap(([page = '', text = '']) => blocksOf(page, text));
}

/** The blocks of a page, which may be indented, as in a list. */
export function blocksOf(page: string, text: string): readonly Block[] {
  const found = text.matchAll(/^( *)```(.*)\n([\s\S]*?)^\1```$/gm);
  return [...found].map(({ 1: indent = '', 2: language = '', 3: code = '', index }) => ({
    page,
    line: text.slice(0, index).split('\n').length + 1,
    language,
    code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
}

/** Why a block does not run, as its first line says, in English or Chinese; undefined if it says nothing. */
export function reasonOf({ code }: Block): string | undefined {
  return /^(?:\/\/|#) (?:Not run in tests: |测试中不运行：)(\S.*)/.exec(code)?.[1];
}

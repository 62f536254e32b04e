import { test } from 'node:test';
import { runExample } from '../kernel/example-cells';
import { JupyterClient } from '../kernel/jupyter-client';
import { allBlocks, type Block } from './blocks';
import { fateOf, PAGES } from './table';

/** Makes a test of each of these pages: its cells run one after the other in a kernel, after what a reader has before them. */
export function testCells(fate: 'cell' | 'torch cell', isMeant: (page: string) => boolean): void {
  const cells = allBlocks().filter((block) => isMeant(block.page) && fateOf(block) === fate);
  for (const page of new Set(cells.map((cell) => cell.page)))
    test(`the cells of ${page} run one after the other`, () =>
      runCells(
        page,
        cells.filter((cell) => cell.page === page),
      ));
}

async function runCells(page: string, cells: readonly Block[]): Promise<void> {
  const { files, before = {} } = PAGES[page] ?? {};
  const client = await JupyterClient.start();
  try {
    files?.(client.folder);
    for (const { code } of cells) {
      const earlier = Object.entries(before).filter(([text]) => code.includes(text));
      for (const cell of earlier.flatMap(([, own]) => own)) await runExample(client, cell);
      await runExample(client, code);
    }
  } finally {
    await client.stop();
  }
}

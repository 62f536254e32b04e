// biome-ignore lint/suspicious/noTsIgnore: in the declarations that users read the package may be missing.
/** @ts-ignore danfojs-node is optional; without it a frame is `any`. */
import type { DataFrame as DanfoFrame } from 'danfojs-node';
import { ShardlabError } from '../core/errors';

/** A table of the library danfojs-node. */
export type DataFrame = DanfoFrame;

/** danfojs-node asks for a package that downloads a binary and for one by an address: these replace them. */
const INSTALL = `npm pkg set 'overrides.danfojs-node.@tensorflow/tfjs-node=npm:@tensorflow/tfjs@4.22.0' overrides.danfojs-node.xlsx=0.18.5
npm install danfojs-node@1.2.0`;

/**
 * Rows as a danfojs DataFrame with the given columns. The library is loaded on first use, which takes seconds.
 * Throws: IO with what to install if it is missing.
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
    throw new ShardlabError(
      'IO',
      `a DataFrame needs the package danfojs-node, which is not installed; in the folder in which shardlab is installed, run:\n${INSTALL}`,
      { cause },
    );
  }
}

/** Rows by column of a frame; of a series too, which has one column. */
export function rowsOf({ columns, values }: DataFrame): Record<string, unknown>[] {
  return values.map((row: unknown) =>
    Object.fromEntries(columns.map((key, i) => [key, Array.isArray(row) ? row[i] : row])),
  );
}

/** The prototype that frames and series, also those computed from them, have in common. */
export function commonPrototype(value: object): object {
  const next: object | null = Object.getPrototypeOf(value);
  return next === null || next === Object.prototype ? value : commonPrototype(next);
}

import { readFileSync } from 'node:fs';
import { testData } from '../../support/paths';

/** What data_reference.py recorded. */
export interface DataReference {
  readonly samplers: readonly {
    readonly length: number;
    readonly world: number;
    readonly shuffle: boolean;
    readonly dropLast: boolean;
    readonly seed: number;
    /** By rank and epoch, the rows. */
    readonly ranks: readonly (readonly number[][])[];
  }[];
  readonly splits: readonly {
    readonly length: number;
    readonly share: number;
    readonly seed: number;
    readonly train: readonly number[];
    readonly validation: readonly number[];
  }[];
  readonly tokens: readonly { readonly text: string; readonly ids: readonly number[] }[];
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  /** By file, the values of [3, rows, columns] from 0 to 255. */
  readonly images: Readonly<Record<string, readonly number[]>>;
}

/** Returns the path of a recorded file. */
export function dataFile(name: string): string {
  return testData('files', name);
}

export function dataReference(): DataReference {
  return JSON.parse(readFileSync(testData('data_reference.json'), 'utf8'));
}

import { readFileSync } from 'node:fs';
import { testData } from './paths';

/** A training of two parameters, each in its own group, for 20 steps. */
interface Case {
  readonly kind: 'adamW' | 'adam' | 'sgd' | 'lion';
  readonly options: Readonly<Record<string, never>>;
  readonly groups: readonly Readonly<Record<string, never>>[];
  /** The parameters after the first and the last step. */
  readonly after: Readonly<Record<number, readonly (readonly number[])[]>>;
}

interface Reference {
  readonly starts: readonly number[][];
  /** Per step and parameter. */
  readonly gradients: readonly (readonly number[][])[];
  readonly cases: Readonly<Record<string, Case>>;
  /** Per schedule and step, the rates of two groups, which begin at 0.1 and 0.02. */
  readonly rates: Readonly<Record<string, readonly (readonly [number, number])[]>>;
}

/** What test/data/optimizer_reference.py recorded. */
export const reference: Reference = JSON.parse(
  readFileSync(testData('optimizer_reference.json'), 'utf8'),
) as Reference;

import type { RunView } from '../run-view';

/** A run under the name that figures show. */
export interface NamedView {
  readonly name: string;
  readonly view: RunView;
}

/** The difference of one tensor between two runs. */
export interface Difference {
  /** The parameter's name. */
  readonly name: string;
  /** The largest difference of two elements. */
  readonly absolute: number;
  /** The largest difference of two elements ÷ the largest magnitude of an element. */
  readonly relative: number;
}

/** A parameter and its gradient, with their largest differences over all steps. */
export interface ParityParameter {
  readonly name: string;
  readonly parameter: Difference;
  /** null if the parameter is not trained. */
  readonly gradient: Difference | null;
  /** The share of elements that are not compared after an update, because their gradients are only rounding errors. */
  readonly notCompared: number;
}

/** A difference beyond the tolerance. */
export interface FoundDifference extends Difference {
  readonly what: 'gradient' | 'parameter';
}

/** The event of a step after which values first differ, between two runs or between ranks. */
export interface DifferingEvent {
  /** The ranks whose values differ first. */
  readonly ranks: readonly number[];
  /** The event in words: 'reduceScatter of blocks.3 (#9)'. */
  readonly event: string;
  /** The parameter that differs first; null if the values are no parameter's. */
  readonly parameter: string | null;
  /** The largest difference of two elements, and the same ÷ the largest element; null if the values were not stored. */
  readonly absolute: number | null;
  readonly relative: number | null;
  /** One sentence that says all of this. */
  readonly text: string;
}

/** The losses of both runs in a step, and the differences after this step. */
export interface ParityStep {
  readonly step: number;
  /** null before the first step. */
  readonly losses: readonly [number, number] | null;
  /** The largest differences; null if there are no gradients. */
  readonly gradient: Difference | null;
  readonly parameter: Difference | null;
  /**
   * The first gradient, in the model's order, that differs by more than the tolerance; if no gradient does, the first parameter
   * that does.
   */
  readonly first: FoundDifference | null;
  /** The event after which values first differed, in this step or before; null if none was found. */
  readonly event?: DifferingEvent | null | undefined;
}

/** The step and the tensor in which two runs first differ by more than the tolerance. */
export interface FirstDifference {
  /**
   * The step's number. If the parameters differed before any compared step, this is the number of the step before the first
   * compared step.
   */
  readonly step: number;
  readonly what: 'initial parameter' | 'gradient' | 'parameter' | 'loss';
  /** The module and the whole name of the parameter; null for a loss. */
  readonly module: string | null;
  readonly parameter: string | null;
  readonly absolute: number;
  readonly relative: number;
}

/** The numbers that a figure of two runs shows. */
export interface ParityParts {
  readonly base: NamedView;
  readonly compared: NamedView;
  readonly steps: readonly ParityStep[];
  readonly parameters: readonly ParityParameter[];
  readonly tolerance: number;
}

/** Returns the difference of both losses of a step: absolute, and as a share of the larger loss. */
export function lossDifference({
  losses,
}: ParityStep): { readonly absolute: number; readonly relative: number } | null {
  if (losses === null) return null;
  const [a, b] = losses;
  const absolute = Math.abs(a - b);
  return { absolute, relative: absolute === 0 ? 0 : absolute / Math.max(Math.abs(a), Math.abs(b)) };
}

/** Returns a step's differences of the loss, of gradients and of parameters; null if there is nothing to compare. */
export function differencesOf(step: ParityStep): readonly (number | null)[] {
  return [lossDifference(step), step.gradient, step.parameter].map(
    (difference) => difference?.relative ?? null,
  );
}

/** Returns the name of the module that has a parameter: 'blocks.0.qkv' of 'blocks.0.qkv.weight'. */
export function moduleOf(name: string): string {
  return name.split('.').slice(0, -1).join('.');
}

/** Writes a difference with two digits: 4.2e-4, 0.12. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return 'not a number';
  return value !== 0 && value < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(2)));
}

/** The most characters of a name in a figure. */
const NAME = 26;

/** Returns a name, or the end of a long name. */
export function shortened(name: string): string {
  return name.length <= NAME ? name : `…${name.slice(1 - NAME)}`;
}

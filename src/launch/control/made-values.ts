/*
 * [Note: made values] To find where two runs, or two ranks, first differ, ranks record digests of what each point of a step makes: the
 * batch, a unit's whole parameters, its output, its gradients on this rank, what the rank brings to a collective and gets from it,
 * the gradients before the update, and the parameters after it. Two values that are equal to the bit have equal sums. Values that
 * are equal except for rounding have nearly equal norms and marks; a mark is the sum of all elements with pseudorandom signs. So a
 * difference d of a vector changes a mark by about |d|.
 */

/** What a point of a step makes. [Note: made values] */
export type Made =
  | 'batch'
  | 'parameters'
  | 'output'
  | 'gradients'
  | 'contribution'
  | 'result'
  | 'reduced'
  | 'update';

/** The digest of one tensor, or of a part of it. */
export interface MadePart {
  /** The parameter's name; '' for other values. */
  readonly name: string;
  /** Says which elements these are; equal on ranks and in runs that hold the same elements. */
  readonly place: string;
  /** CRC-32 of the bytes. */
  readonly sum: number;
  readonly norm: number;
  readonly marks: readonly [number, number];
}

/** What one point of a step made on one rank. */
export interface MadeEvent {
  readonly made: Made;
  /** The point in words: 'reduceScatter of blocks.3 (#9)'. */
  readonly point: string;
  /** The point's module. */
  readonly module: string;
  /** Equal for the same point on other ranks and in other runs. */
  readonly key: string;
  /** The collective to which the rank brings values, or from which it gets them; equal on all its ranks; null for other points. */
  readonly call: string | null;
  /** The ranks that must have equal values, if all ranks of a group must. */
  readonly sharedBy: readonly number[] | null;
  readonly parts: readonly MadePart[];
}

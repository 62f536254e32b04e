import type { Estimate } from '../planner';

/**
 * 'holds': true under the usual reading. 'holds partly': some parts are true, others not. 'holds only if': true under a
 * condition that the document does not state. 'off': wrong under any usual reading. 'contradicts itself': the document's own
 * numbers or words exclude each other. 'undefined': a term is not defined, or a named setting does not exist. 'open': a
 * measurement is missing.
 */
export const VERDICTS = [
  'holds',
  'holds partly',
  'holds only if',
  'off',
  'contradicts itself',
  'undefined',
  'open',
] as const;
export type Verdict = (typeof VERDICTS)[number];

/**
 * The source of a finding. 'formula': arithmetic or a published formula; 'dry run': the strategy's code on shapes;
 * 'prediction': the cost and memory model of GPUs; 'run': ranks that trained on this machine.
 */
export type EvidenceKind = 'formula' | 'dry run' | 'prediction' | 'run';

/** How a reader can repeat a check. */
export interface Evidence {
  readonly kind: EvidenceKind;
  /** A cell's code, which shows its last expression (`sl` is the library); or, after `$ `, a line for a shell. */
  readonly source: string;
}

interface CheckedNumber {
  /** The number from a formula, a dry run or the cost model. */
  readonly predicted?: number | Estimate | undefined;
  /** The number from a run on this machine. */
  readonly measured?: number | undefined;
  /** Unit of `predicted` and `measured`; null if there is no number. */
  readonly unit: string | null;
  /**
   * How wrong the claim is ('1.9 x too high'), which of its parts is wrong, what it contradicts, or what is not defined; ''
   * if nothing is wrong with it.
   */
  readonly by: string;
  /**
   * The reading under which the sentence is right, 'holds only if …', or that no such reading was found; '' if the sentence holds,
   * and if the verdict itself says what is right, not defined or not measured.
   */
  readonly reading: string;
  /** The reason for the verdict, in one or two sentences. */
  readonly why: string;
  /** Why the verdict is a judgement on words; all other verdicts follow from numbers. */
  readonly judged?: string;
  /** The claim that judges the same number or code; the two claims are judged once. */
  readonly follows?: string;
  readonly evidence: Evidence;
}

/** A finding whose number, or whose text `by`, shows how wrong the sentence is. */
export interface SettledFinding extends CheckedNumber {
  readonly verdict: 'holds' | 'off' | 'contradicts itself' | 'undefined';
}

/** A finding about a sentence with several parts; `by` says which part is wrong. */
export interface PartialFinding extends CheckedNumber {
  readonly verdict: 'holds partly';
  /** The part of the sentence that is true. */
  readonly part: string;
}

/** A finding about a sentence that leaves out a condition. */
export interface ConditionalFinding extends CheckedNumber {
  readonly verdict: 'holds only if';
  /** The condition, in words that can follow 'only if'. */
  readonly condition: string;
  /** What happens if the condition is not met. */
  readonly otherwise: string;
}

/** A finding that needs other hardware: its name, the command to run there, and the expected result. */
export interface OpenFinding extends CheckedNumber {
  readonly verdict: 'open';
  readonly predicted: Estimate;
  /** The hardware that is missing. */
  readonly needs: string;
  /** The exact command to run on this hardware. */
  readonly command: string;
}

/** The result of a check of a claim. */
export type Finding = SettledFinding | PartialFinding | ConditionalFinding | OpenFinding;

/** Returns the words that complete a verdict: 'only if N is 10', '1.90 x too high'; '' if there are none. */
export function detailOf(finding: Finding): string {
  switch (finding.verdict) {
    case 'holds':
      return '';
    case 'holds partly':
      return `right: ${finding.part}; wrong: ${finding.by}`;
    case 'holds only if':
      return finding.condition;
    case 'open':
      return `needs ${finding.needs}`;
    default:
      return finding.by;
  }
}

/** Returns 'holds' if a sentence is true, else the verdict `otherwise`. */
export function holdsOr<Word extends Verdict>(isTrue: boolean, otherwise: Word): 'holds' | Word {
  return isTrue ? 'holds' : otherwise;
}

/** Returns the verdict of a sentence that leaves out a condition. `isTrueIfMet`: the sentence is true if the condition is met. */
export function onlyIf(isTrueIfMet: boolean, isTrueOtherwise: boolean): 'holds' | 'holds only if' | 'off' {
  if (isTrueIfMet && isTrueOtherwise) return 'holds';
  return isTrueIfMet ? 'holds only if' : 'off';
}

/** Returns the verdict of a sentence from the truth of each of its parts. */
export function ofParts(...areTrue: readonly boolean[]): 'holds' | 'holds partly' | 'off' {
  if (areTrue.every((isTrue) => isTrue)) return 'holds';
  return areTrue.some((isTrue) => isTrue) ? 'holds partly' : 'off';
}

/** Whether a documented number differs from our number by at most the share `within` of our number. */
export function isNear(documented: number, ours: number, within = 0.05): boolean {
  return Math.abs(documented - ours) <= within * Math.abs(ours);
}

/** Returns a finding's number: the measured number if there is one, else the predicted number; null if there is no number. */
export function numberOf({ measured, predicted }: Finding): number | null {
  if (measured !== undefined) return measured;
  if (predicted === undefined) return null;
  return typeof predicted === 'number' ? predicted : predicted.value;
}

/** Returns '1.90 x too high' or '1.46 x too low'; '' if the relative difference is at most `within`. */
export function factorOff(documented: number, ours: number, within = 0.05): string {
  if (Math.abs(documented / ours - 1) <= within) return '';
  const ratio = documented / ours;
  return ratio > 1 ? `${ratio.toPrecision(3)} x too high` : `${(1 / ratio).toPrecision(3)} x too low`;
}

/** Returns '14.5 points too high' or '2.5 points too low' for percentages; '' if they differ by at most `within` points. */
export function pointsOff(documented: number, ours: number, within = 1): string {
  const points = documented - ours;
  if (Math.abs(points) <= within) return '';
  return `${Number(Math.abs(points).toPrecision(3))} points too ${points > 0 ? 'high' : 'low'}`;
}

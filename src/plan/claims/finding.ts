import type { Estimate } from '../prediction';

/** 'off': `by` says by how much; 'contradicts itself': the document's own numbers or words exclude each other. */
export const VERDICTS = ['confirmed', 'off', 'contradicts itself', 'not checkable here'] as const;
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

interface Found {
  /** The number from a formula, a dry run or the cost model. */
  readonly predicted?: number | Estimate | undefined;
  /** The number from a run on this machine. */
  readonly measured?: number | undefined;
  /** Unit of `predicted` and `measured`; null if there is no number. */
  readonly unit: string | null;
  /** How wrong the claim is, such as '1.9 x too high' or '14.5 points too high'; '' if it is not wrong. */
  readonly by: string;
  /** The reason, in one or two sentences. */
  readonly why: string;
  readonly evidence: Evidence;
}

/** A finding that needs no other hardware. */
export interface SettledFinding extends Found {
  readonly verdict: Exclude<Verdict, 'not checkable here'>;
}

/** A finding that needs other hardware: its name, the command to run there, and the expected result. */
export interface OpenFinding extends Found {
  readonly verdict: 'not checkable here';
  /** The hardware that is missing. */
  readonly needs: string;
  /** The exact command to run on this hardware. */
  readonly command: string;
}

/** The result of a check of a claim. */
export type Finding = SettledFinding | OpenFinding;

/** Returns a finding's number: the measured one if there is one, else the predicted one; null if it has none. */
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

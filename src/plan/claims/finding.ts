import type { Estimate } from '../prediction';

/** 'off' says by how much; 'contradicts itself' means that the document's own numbers or words exclude each other. */
export const VERDICTS = ['confirmed', 'off', 'contradicts itself', 'not checkable here'] as const;
export type Verdict = (typeof VERDICTS)[number];

/**
 * What shows it. 'formula': arithmetic or a published formula; 'dry run': the strategy's code on shapes; 'prediction': the cost and
 * memory model of GPUs; 'run': ranks that trained here.
 */
export type EvidenceKind = 'formula' | 'dry run' | 'prediction' | 'run';

/** How anyone can see it again. */
export interface Evidence {
  readonly kind: EvidenceKind;
  /** A cell's code (`sl` is the library, the last expression is what it shows), or from `$ ` on a shell's line. */
  readonly source: string;
}

interface Found {
  /** By formula, dry run or cost model. */
  readonly predicted?: number | Estimate | undefined;
  /** In a run here. */
  readonly measured?: number | undefined;
  /** Of both; null where nothing is counted. */
  readonly unit: string | null;
  /** How far off, as '1.9 x too high' or '14.5 points too high'; '' where nothing is. */
  readonly by: string;
  /** One or two sentences. */
  readonly why: string;
  readonly evidence: Evidence;
}

/** A verdict that holds with what is here. */
export interface SettledFinding extends Found {
  readonly verdict: Exclude<Verdict, 'not checkable here'>;
}

/** Hardware is missing: which, what to run there, and what is expected of it. */
export interface OpenFinding extends Found {
  readonly verdict: 'not checkable here';
  /** The hardware that is missing. */
  readonly needs: string;
  /** What someone who has it runs, exactly. */
  readonly command: string;
}

/** The result of a check of a claim. */
export type Finding = SettledFinding | OpenFinding;

/** The number that a finding stands on: the measured one before the predicted one; null where it has none. */
export function numberOf({ measured, predicted }: Finding): number | null {
  if (measured !== undefined) return measured;
  if (predicted === undefined) return null;
  return typeof predicted === 'number' ? predicted : predicted.value;
}

/** '1.90 x too high' or '1.46 x too low'; '' within `within` (relative). */
export function factorOff(documented: number, ours: number, within = 0.05): string {
  if (Math.abs(documented / ours - 1) <= within) return '';
  const ratio = documented / ours;
  return ratio > 1 ? `${ratio.toPrecision(3)} x too high` : `${(1 / ratio).toPrecision(3)} x too low`;
}

/** '14.5 points too high' or '2.5 points too low', of percentages; '' within `within` points. */
export function pointsOff(documented: number, ours: number, within = 1): string {
  const points = documented - ours;
  if (Math.abs(points) <= within) return '';
  return `${Number(Math.abs(points).toPrecision(3))} points too ${points > 0 ? 'high' : 'low'}`;
}

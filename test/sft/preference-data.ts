import { readFileSync } from 'node:fs';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { testData } from '../support/paths';
import { LLAMA, TOKENIZER } from './instruction-data';

/** Pairs of our own: 6 that fit, then one that is too long, one with equal answers, and one with a single answer. */
export const PAIRS = testData('preferences/pairs.jsonl');
export const NUM_PAIRS = 6;

/** What TRL's DPOTrainer made of the pairs. */
export interface DpoReference {
  readonly settings: {
    readonly seq: number;
    readonly seed: number;
    readonly batch: number;
    readonly accumulation: number;
    readonly steps: number;
    readonly beta: number;
  };
  readonly pairs: readonly Readonly<
    Record<'prompt_ids' | 'chosen_ids' | 'rejected_ids', readonly number[]>
  >[];
  readonly cases: readonly DpoCase[];
}

export interface DpoCase {
  readonly name: string;
  readonly lora: boolean;
  readonly labelSmoothing: number;
  readonly lr: number;
  readonly base: readonly string[];
  readonly trained: readonly string[];
  readonly losses: readonly number[];
  readonly margin: readonly number[];
  readonly accuracy: readonly number[];
  readonly chosen: readonly number[];
  readonly rejected: readonly number[];
}

export function dpoReference(): DpoReference {
  return JSON.parse(readFileSync(testData('dpo_reference.json'), 'utf8')) as DpoReference;
}

/** A config on the pairs. */
export function dpoConfig(more: TrainConfigInput = {}, data: object = {}): TrainConfig {
  return parseTrainConfig({
    model: LLAMA,
    data: { preferences: PAIRS, tokenizer: TOKENIZER, ...data },
    dpo: {},
    ...more,
  });
}

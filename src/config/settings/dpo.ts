import { z } from 'zod';
import { type ConfigIssue, type Setting, schemaOf } from '../setting';
import { type DataSetting, ownData } from './data';

/** How a model is trained on pairs of answers. Source: Rafailov et al. 2023; names and defaults of TRL's DPOConfig. */
export const DPO_PARTS = {
  beta: {
    // The loss has float32 numbers, in which other values are 0 or infinite.
    schema: z.number().min(1e-30).max(1e30).default(0.1),
    says: 'how strongly the model is held to the reference model: a larger value lets the answers differ less',
  },
  labelSmoothing: {
    schema: z.number().min(0).lt(0.5).default(0),
    says: "the assumed share of pairs whose answers are interchanged (label_smoothing of TRL's DPOConfig)",
  },
} as const satisfies Required<Setting<never>>['parts'];

export const dpoSchema = schemaOf(DPO_PARTS);

export type DpoConfig = z.output<typeof dpoSchema>;

/** The part of a config that the rules below read. */
export interface Read {
  readonly dpo: DpoConfig | null;
  readonly data: DataSetting;
  readonly loss: 'function' | null;
  readonly parallel: { readonly tp: number; readonly cp: number; readonly pp: number; readonly ep: number };
}

export const DPO = {
  schema: dpoSchema.nullable().default(null),
  says:
    'direct preference optimization (DPO): trains on the pairs of data.preferences, beside a frozen reference model with the first ' +
    'weights (dpo.md). With lora, the reference is the model without its adapters. `null`: none',
  form: '{ beta: 0.1 }, or null for none',
  conflict: dpoConflicts,
  changes: 'loss',
  planned: {
    refused:
      'is planned as training on `batch` rows without a reference model; a step has twice as many rows, one more forward per row and, ' +
      "without lora, the reference model's parameters. sl.plan(config, place, { count: true }) counts them",
  },
  parts: DPO_PARTS,
} as const satisfies Setting<Read>;

function dpoConflicts({ dpo, data, loss, parallel }: Read): readonly ConfigIssue[] {
  const issue = (message: string, ...path: string[]): ConfigIssue[] => [{ path, message }];
  const hasPairs = ownData(data)?.preferences !== undefined;
  if (dpo === null) {
    return hasPairs
      ? issue('has pairs of answers, on which only dpo trains; write dpo: {} too', 'data', 'preferences')
      : [];
  }
  if (!hasPairs) return issue("needs pairs of answers; write data: { preferences: './pairs.jsonl' }", 'dpo');
  if (loss !== null)
    return issue('is a loss itself, so loss cannot be a function; leave one of the two out', 'dpo');
  const degree = (['tp', 'cp', 'pp', 'ep'] as const).find((name) => parallel[name] > 1);
  if (degree === undefined) return [];
  return issue(
    `compares whole answers, but parallel.${degree} ${parallel[degree]} divides them or the model between ranks; use ` +
      `parallel.${degree} 1, and FULL_SHARD to save memory`,
    'dpo',
  );
}

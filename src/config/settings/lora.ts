import { z } from 'zod';
import { size } from '../families/kinds';
import { type Setting, schemaOf } from '../setting';

/** Small matrices that train in place of the model's own. */
export const LORA_PARTS = {
  r: {
    schema: size.default(8),
    says: 'rank: the number of columns of B and rows of A',
    names: { peft: 'rank', diffSynth: 'lora_rank' },
  },
  alpha: {
    schema: z.number().positive().default(8),
    says: 'the product of B and A is multiplied by alpha / r',
    names: { peft: 'lora_alpha' },
  },
  dropout: {
    schema: z.number().min(0).lt(1).default(0),
    says: 'share of the inputs of A that a step sets to 0',
    names: { peft: 'lora_dropout' },
  },
  targets: {
    schema: z.union([z.literal('all-linear'), z.array(z.string().min(1)).min(1)]).default('all-linear'),
    says:
      "linear layers that get adapters, by their names or the ends of their names ('*' stands for one part); 'all-linear' means all " +
      'except lm_head',
    form: "['q_proj', 'v_proj'], or 'all-linear'",
    names: { peft: 'target_modules', diffSynth: 'lora_target_modules' },
  },
  useDora: {
    schema: z.boolean().default(false),
    says: 'DoRA: each row of W + alpha / r · BA is scaled to a norm of its own, which trains too and begins as the norm of the row of W',
    names: { peft: 'use_dora' },
  },
} as const satisfies Required<Setting<never>>['parts'];

export const loraSchema = schemaOf(LORA_PARTS);

export type LoraConfig = z.output<typeof loraSchema>;

/** The part of a config that the rules below read. */
export interface Read {
  readonly lora: LoraConfig | null;
  readonly parallel: { readonly tp: number };
}

export const LORA = {
  schema: loraSchema.nullable().default(null),
  says: 'adapters of linear layers (LoRA): y = Wx + alpha / r · BAx. Only A and B train; all other parameters are frozen. `null`: none',
  form: "{ r: 8, alpha: 16, targets: ['q_proj', 'v_proj'] }, or null for none",
  names: { peft: 'peft_config' },
  conflict: ({ lora, parallel: { tp } }: Read): string | null =>
    lora === null || tp === 1
      ? null
      : `needs whole matrices, but parallel.tp ${tp} splits them; use parallel.tp 1, and FULL_SHARD to save memory`,
  changes: 'loss',
  planned: { reads: true },
  parts: LORA_PARTS,
} as const satisfies Setting<Read>;

/** Returns why `frozen` has no effect beside adapters; null if it has an effect. */
export function besideAdapters({ lora }: Pick<Read, 'lora'>): string | null {
  return lora === null ? null : 'has no effect with lora: all parameters except the adapters are frozen';
}

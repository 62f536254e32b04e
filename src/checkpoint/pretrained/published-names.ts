import type { ModelConfig } from '../../config/settings/model';

/** The name and orientation of a parameter in files that transformers or diffusers wrote. */
export interface PublishedName {
  readonly name: string;
  /** Whether the matrix in the file is transposed: [inputs, outputs], as in GPT-2's Conv1D. */
  readonly isTransposed: boolean;
}

/** Parts of a GPT's parameter names: first in this library, then in Hugging Face's GPT2LMHeadModel. */
const GPT2_PARTS = [
  [/^blocks\.(\d+)\.ln([12])\./, 'h.$1.ln_$2.'],
  [/^blocks\.(\d+)\.qkv\./, 'h.$1.attn.c_attn.'],
  [/^blocks\.(\d+)\.proj\./, 'h.$1.attn.c_proj.'],
  [/^blocks\.(\d+)\.fc1\./, 'h.$1.mlp.c_fc.'],
  [/^blocks\.(\d+)\.fc2\./, 'h.$1.mlp.c_proj.'],
] as const;

const GPT2_MATRIX = /\.(qkv|proj|fc1|fc2)\.weight$/;

/** The prefix of all names of GPT2LMHeadModel except the head's; files of GPT2Model do not have this prefix. */
export const GPT2_PREFIX = 'transformer.';

/**
 * Parts of a dit's parameter names: first in Wan's own code and in this library, then in diffusers' WanTransformer3DModel.
 * Wan's norm2 has no parameters.
 */
const DIFFUSERS_PARTS = [
  [/^(text|time)_embedding\.0\./, 'condition_embedder.$1_embedder.linear_1.'],
  [/^(text|time)_embedding\.2\./, 'condition_embedder.$1_embedder.linear_2.'],
  [/^time_projection\.1\./, 'condition_embedder.time_proj.'],
  [/^head\.head\./, 'proj_out.'],
  [/^head\.modulation$/, 'scale_shift_table'],
  [/\.modulation$/, '.scale_shift_table'],
  [/\.ffn\.0\./, '.ffn.net.0.proj.'],
  [/\.ffn\.2\./, '.ffn.net.2.'],
  [/\.norm3\./, '.norm2.'],
  [/\.self_attn\./, '.attn1.'],
  [/\.cross_attn\./, '.attn2.'],
  [/(\.attn\d\.)([qkv])\./, '$1to_$2.'],
  [/(\.attn\d\.)o\./, '$1to_out.0.'],
] as const;

/** Returns the name of a dit's parameter in diffusers' WanTransformer3DModel. Source: convert_wan_to_diffusers.py. */
export function diffusersName(name: string): string {
  return DIFFUSERS_PARTS.reduce((one, [part, theirs]) => one.replace(part, theirs), name);
}

/**
 * Returns a parameter's name and orientation in published files. Llama, Qwen2 and Wan's own code have the names of this
 * library.
 */
export function publishedName(shape: ModelConfig, name: string): PublishedName {
  if (shape.kind === 'dit' && shape.className === 'WanTransformer3DModel') {
    return { name: diffusersName(name), isTransposed: false };
  }
  if (shape.kind !== 'gpt') return { name, isTransposed: false };
  const isTransposed = GPT2_MATRIX.test(name);
  if (name.startsWith('lm_head.')) return { name, isTransposed };
  const [part, theirs] = GPT2_PARTS.find(([pattern]) => pattern.test(name)) ?? [/^/, ''];
  return { name: `${GPT2_PREFIX}${name.replace(part, theirs)}`, isTransposed };
}

/**
 * Whether a tensor of a file is not a parameter here, because it is a mask, a table of frequencies, or the head's copy of a
 * tied embedding.
 */
export function isSurplus(name: string, { isTied }: { readonly isTied: boolean }): boolean {
  return (
    /\.attn\.(masked_)?bias$|\.rotary_emb\.inv_freq$/.test(name) || (isTied && name === 'lm_head.weight')
  );
}

import { ConfigError } from '../../core/errors';
import type { ModelConfig } from '../settings/model';
import type { HubConfig } from './family';
import { GPT2_PREFIX, GPT2_TRANSPOSED, gpt2Name, gptHubConfig } from './gpt';
import { llamaHubConfig } from './llama';
import { diffusersName, ditHubConfig } from './wan';

/**
 * The form in which transformers or diffusers publish a model: the content of config.json, and the first word of the names of
 * files.
 */
interface PublishedModel {
  readonly config: HubConfig;
  readonly prefix: 'model' | 'diffusion_pytorch_model';
}

/** Returns the form in which a model is published. Throws: CONFIG for kinds that transformers and diffusers do not have. */
export function publishedModel(shape: ModelConfig): PublishedModel {
  switch (shape.kind) {
    case 'gpt':
      return { prefix: 'model', config: gptHubConfig(shape) };
    case 'llama':
      return { prefix: 'model', config: llamaHubConfig(shape) };
    case 'dit':
      if (shape.experts === 1) return { prefix: 'diffusion_pytorch_model', config: ditHubConfig(shape) };
      throw new ConfigError(
        'a dit with two experts is published as two folders, one per expert; save it with run.save',
      );
    default:
      throw new ConfigError(
        `transformers has no model that equals this library's '${shape.kind}'; save the model with run.save(folder, { type: 'FULL_STATE_DICT' })`,
      );
  }
}

/** The name and orientation of a parameter in files that transformers or diffusers wrote. */
interface PublishedName {
  readonly name: string;
  /** Whether the matrix in the file is transposed: [inputs, outputs], as in GPT-2's Conv1D. */
  readonly isTransposed: boolean;
}

/**
 * Returns a parameter's name and orientation in published files. Llama, Qwen2 and Wan's own code have the names of this
 * library.
 */
export function publishedName(shape: ModelConfig, name: string): PublishedName {
  if (shape.kind === 'gpt') return { name: gpt2Name(name), isTransposed: GPT2_TRANSPOSED.test(name) };
  const isOfDiffusers = shape.kind === 'dit' && shape.className === 'WanTransformer3DModel';
  return { name: isOfDiffusers ? diffusersName(name) : name, isTransposed: false };
}

/**
 * Returns the names that a parameter may have in a file: the published name (with or without GPT-2's prefix), the name in this
 * library, and the name in diffusers.
 */
export function namesInFile(shape: ModelConfig, own: string): readonly string[] {
  if (shape.kind === 'dit') return [own, diffusersName(own)];
  const { name } = publishedName(shape, own);
  return [name, name.startsWith(GPT2_PREFIX) ? name.slice(GPT2_PREFIX.length) : name, own];
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

import { ConfigError } from '../../core';
import type { ModelConfig } from '../settings/model';
import { kindOf } from './families';
import type { HubConfig } from './family';
import type { PublishedForm } from './model-kind';

/**
 * The form in which transformers or diffusers publish a model: the content of config.json, the first word of the names of files,
 * and the program that reads them.
 */
interface PublishedModel {
  readonly config: HubConfig;
  readonly prefix: 'model' | 'diffusion_pytorch_model';
  readonly reader: string;
}

/** Returns the form in which a model is published. Throws: CONFIG for kinds that transformers and diffusers do not have. */
export function publishedModel(shape: ModelConfig): PublishedModel {
  const form = formOf(shape);
  if (form === undefined)
    throw new ConfigError(
      `transformers has no model that equals this library's '${shape.kind}'; save the model with run.save(folder, { type: 'FULL_STATE_DICT' })`,
    );
  return { prefix: form.prefix, config: form.configOf(shape), reader: form.readerOf(shape) };
}

/** The name and orientation of a parameter in files that transformers or diffusers wrote. */
interface PublishedName {
  readonly name: string;
  /** Whether the matrix in the file is transposed: [inputs, outputs], as in GPT-2's Conv1D. */
  readonly isTransposed: boolean;
}

/** Returns a parameter's name and orientation in published files; a kind that is not published has the names of this library. */
export function publishedName(shape: ModelConfig, own: string): PublishedName {
  const form = formOf(shape);
  return {
    name: form?.nameOf(shape, own) ?? own,
    isTransposed: form?.transposed?.test(own) ?? false,
  };
}

/** Whether a model's published matrices are [inputs, outputs]. */
export function isTransposed(shape: ModelConfig): boolean {
  return formOf(shape)?.transposed !== undefined;
}

/** Returns the names that a parameter may have in a file, in this order. */
export function namesInFile(shape: ModelConfig, own: string): readonly string[] {
  return formOf(shape)?.namesOf(own) ?? kindOf(shape)?.namesInFile?.(own) ?? [own];
}

function formOf(shape: ModelConfig): PublishedForm<ModelConfig> | undefined {
  return kindOf(shape)?.published;
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

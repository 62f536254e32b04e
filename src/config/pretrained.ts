/** A folder in Hugging Face's format, and sizes that its config.json does not determine. */
export interface PretrainedInput {
  /**
   * A folder with config.json and safetensors files, one of these files, or a list of all of them. Relative paths begin at the
   * current folder.
   */
  readonly from: string | readonly string[];
  /** Tokens per sequence; default: the number of the model's positions. */
  readonly seq?: number | undefined;
  readonly attention?: 'eager' | 'flash' | undefined;
  /** Frames, rows and columns of the latent videos of a dit. */
  readonly latent?: readonly [number, number, number] | undefined;
  /** Positions of a dit's text; default: config.json's text_len, or 512, to which diffusers pads a text. */
  readonly textLen?: number | undefined;
}

/** A folder whose config.json was not read, or is no model that can be built. */
export interface UnreadFolder extends Pick<PretrainedInput, 'from'> {
  readonly wrong: string;
}

/** Whether a setting `model` names a folder and no kind. A parsed model has a folder and a kind. */
export function isPretrained(value: unknown): value is PretrainedInput {
  return typeof value === 'object' && value !== null && 'from' in value && !('kind' in value);
}

/** Says why the sizes of a folder are not known. */
export function unreadReason(folder: PretrainedInput | UnreadFolder): string {
  return 'wrong' in folder
    ? folder.wrong
    : 'from is a folder, and no files can be read here; give the model by its name, its sizes or its config.json';
}

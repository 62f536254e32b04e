/** A model in Python: its constants and classes, and how a script names its parts. */
export interface ModelScript {
  readonly constants: string;
  readonly classes: string;
  readonly className: string;
  readonly blockClass: string;
  /** The expression of all blocks of `model`. */
  readonly blocks: string;
  /** Expressions of parameters that are read outside of their own module. */
  readonly readOutside: readonly string[];
  /** Modules that tensor parallelism splits by rows of their weight, and by columns, as patterns of fnmatch. */
  readonly split: { readonly columns: readonly string[]; readonly rows: readonly string[] };
}

/** Writes the loop over blocks in a forward, at its indentation. */
export type BlockCall = (blocks: string, args: string) => string;

/** The last line of a forward. */
export const LOSS_LINE = '        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())';

/** A model in Python: its constants, its classes, and the names of its parts. */
export interface ModelScript {
  readonly constants: string;
  readonly classes: string;
  readonly className: string;
  readonly blockClass: string;
  /** The Python expression for all blocks of `model`. */
  readonly blocks: string;
  /** Python expressions for the parameters that are read outside of their own module. */
  readonly readOutside: readonly string[];
  /** The modules that tensor parallelism splits, as in torch's ColwiseParallel and RowwiseParallel; patterns of fnmatch. */
  readonly split: { readonly columns: readonly string[]; readonly rows: readonly string[] };
}

/** Returns the lines of the loop over blocks, with the indentation of a forward's body. */
export type BlockCall = (blocks: string, args: string) => string;

/** The last line of a forward. */
export const LOSS_LINE = '        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())';

/**
 * The label of a row that does not count: cross-entropy gives such a row the loss 0 and no gradient. The kernel of cross-entropy,
 * which is written in assembly, has the same constant. Source: torch.nn.functional.cross_entropy's ignore_index.
 */
export const IGNORED_LABEL = -100;

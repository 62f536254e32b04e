/**
 * The label of a row that does not count: cross-entropy gives it the loss 0 and no gradient. The assembly of cross-entropy has it too. Source:
 * torch.nn.functional.cross_entropy's ignore_index.
 */
export const IGNORED_LABEL = -100;

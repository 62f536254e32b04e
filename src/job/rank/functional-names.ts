/*
 * Operations under the name `nn.functional` of ranks' cells, with the names, arguments and defaults of torch.nn.functional.
 */

export { conv2d, convTranspose2d, maxPool2d } from '../../backend/image-ops';
export * from '../../nn/layers/activation-functions';
export type {
  BinaryCrossEntropyOptions,
  ClassLossOptions,
  Conv1dWindow,
  CrossEntropyOptions,
  KlDivOptions,
  LossOptions,
  Reduction,
  ScaledDotProductOptions,
} from '../../nn/layers/function-options';
export * from '../../nn/layers/functions';
export * from '../../nn/layers/losses';

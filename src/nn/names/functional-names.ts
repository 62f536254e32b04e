/*
 * Operations under the name `nn.functional` of ranks' cells, with the names, arguments and defaults of torch.nn.functional.
 */

export { conv2d, convTranspose2d, maxPool2d } from '../../engine';
export * from '../layers/activation-functions';
export type {
  BinaryCrossEntropyOptions,
  ClassLossOptions,
  Conv1dWindow,
  CrossEntropyOptions,
  KlDivOptions,
  LossOptions,
  LossReduction,
  ScaledDotProductOptions,
} from '../layers/function-options';
export * from '../layers/functions';
export * from '../layers/losses';

import { testCombinations } from './combination-suite';

testCombinations('one combination of each parallelism', [
  'tensors over 2, DDP, accumulation',
  'a ring of 2, ZERO_1, accumulation',
]);

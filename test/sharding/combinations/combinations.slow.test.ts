import { testCombinations } from './combination-suite';

testCombinations('one combination of each parallelism', [
  'tensors over 2, DDP, accumulation',
  'a ring of 2, ZERO_1, accumulation',
  '6 experts divided over 2, ZERO_2, accumulation',
  '5 layers on 2 stages, 1F1B, full recompute, accumulation',
  '6 experts per layer, 5 layers on 2 stages, balanced by bias',
]);

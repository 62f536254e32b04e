import type { Answer } from './lesson';

/** Answers to the notebooks' exercises, by the exercise's name. */
export const ANSWERS: Readonly<Record<string, Answer>> = {
  '00.mean': {
    kind: 'number',
    value: 1.5,
    tolerance: 1e-6,
    because: '(0 + 1 + 2 + 3) / 4 on every rank, by one all-reduce',
  },
  '00.cause': {
    kind: 'word',
    values: ['activation', 'temp', 'batch'],
    because: 'activations, the loss’s temporaries and the batch itself grow with the batch; states do not',
  },
};

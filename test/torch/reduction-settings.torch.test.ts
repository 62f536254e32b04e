import type { TrainConfigInput } from '../../src/config/train-config';
import { BASE, compareSettings } from './compare-settings';
import { LLAMA } from './torch-fixture';

type Hook = NonNullable<TrainConfigInput['parallel']>['commHook'];

/** Begins in the third step, as early as PyTorch can. */
const POWER = { kind: 'powerSGD', startPowerSGDIter: 2, matrixApproximationRank: 2 } as const;
/** Begins in the first step, and draws other first directions in every step. */
const FORGETFUL = { ...POWER, startPowerSGDIter: 0, useErrorFeedback: false, warmStart: false } as const;
/** Adam would make rounding in the many small values of a matrix of low rank larger. */
const SGD = { kind: 'sgd', lr: 0.05 } as const;

const hooked = (commHook: Hook, settings: TrainConfigInput = {}): TrainConfigInput => ({
  ...BASE,
  ...settings,
  parallel: { strategy: 'NO_SHARD', commHook },
});

compareSettings('PowerSGD has the same losses, gradients and parameters on PyTorch', [
  { name: 'rank 2', config: hooked(POWER) },
  {
    name: 'rank 3 with accumulation',
    config: hooked({ ...POWER, matrixApproximationRank: 3 }, { accumulation: 2 }),
  },
  { name: 'other first directions in every step', config: hooked({ ...POWER, warmStart: false }) },
  { name: 'without error feedback', config: hooked({ ...FORGETFUL, randomSeed: 3 }, { optimizer: SGD }) },
  { name: 'a Llama', config: hooked(POWER, { model: LLAMA }) },
]);

import { HAS_ALL_CASES } from '../../support/cases';
import { STRATEGY_NAMES } from './parity-runs';
import { testParity } from './parity-suite';

/**
 * Every strategy and naive form at 2 ranks with a BLAS, and at 4 where all cases run; `npm test` has hybrid strategies at 4 ranks
 * in settings-parity, and others in own-model.slow. Three steps are enough for
 * ranks, because one process is compared with torch for twelve: each defect of defects.slow shows within two. Each world has one
 * eps, because eps does not depend on ranks. In parity.long ranks train twelve steps, with both in each world, also without a BLAS.
 */
const SHORT = { steps: 3, following: false } as const;

testParity('with a BLAS', {
  blas: 'auto',
  worlds: HAS_ALL_CASES ? { 2: ['torch'], 4: ['smooth'] } : { 2: ['torch'] },
  strategies: STRATEGY_NAMES,
  ...SHORT,
});

import { STRATEGY_NAMES } from './parity-runs';
import { testParity } from './parity-suite';

/**
 * Every strategy and naive form at 2 and 4 ranks with a BLAS. Three steps are enough for
 * ranks, because one process is compared with torch for twelve: each defect of defects.slow shows within two. Each world has one
 * eps, because eps does not depend on ranks. In parity.long ranks train twelve steps, with both in each world, also without a BLAS.
 */
const SHORT = { steps: 3, following: false } as const;

testParity('with a BLAS', {
  blas: 'auto',
  worlds: { 2: ['torch'], 4: ['smooth'] },
  strategies: STRATEGY_NAMES,
  ...SHORT,
});

import { STRATEGY_NAMES } from './parity-runs';
import { testParity } from './parity-suite';

/**
 * Every strategy and naive form at 1, 2, 3 and 4 ranks with a BLAS, two of them without. Three steps are enough for
 * ranks, because one process is compared with torch for twelve: each defect of defects.slow shows within two. In parity.long
 * ranks train twelve steps too.
 */
const SHORT = { steps: 3, following: false } as const;

testParity('with a BLAS', { blas: 'auto', worlds: [1, 2, 4], strategies: STRATEGY_NAMES, ...SHORT });
testParity('without a BLAS', { blas: 'none', worlds: [2], strategies: ['NO_SHARD', 'FULL_SHARD'], ...SHORT });

import { STEPS, STRATEGY_NAMES } from './parity-runs';
import { testParity } from './parity-suite';

/** Every step of every run is compared, with torch's eps by processes that follow the run's parameters. */
const WHOLE = { strategies: STRATEGY_NAMES, steps: STEPS, following: true } as const;

testParity('with a BLAS, step by step', { blas: 'auto', worlds: [1, 2, 4], ...WHOLE });
testParity('without a BLAS, step by step', { blas: 'none', worlds: [2], ...WHOLE });

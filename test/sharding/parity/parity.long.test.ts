import { STEPS, STRATEGY_NAMES } from './parity-runs';
import { EPS_NAMES, testParity } from './parity-suite';

/** Every step of every run is compared, with torch's eps by processes that follow the run's parameters. */
const WHOLE = { strategies: STRATEGY_NAMES, steps: STEPS, following: true } as const;

testParity('with a BLAS, step by step', {
  blas: 'auto',
  worlds: { 1: EPS_NAMES, 2: EPS_NAMES, 4: EPS_NAMES },
  ...WHOLE,
});
testParity('without a BLAS, step by step', { blas: 'none', worlds: { 2: EPS_NAMES }, ...WHOLE });

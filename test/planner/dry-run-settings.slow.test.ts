import { mapHere } from '../support/cases';
import { SETTINGS_CASES, SPARSE_CASES } from './dry-run-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

/** Cases whose attention a BLAS fuses, one of each kind; dry-run-settings.long has all. */
const FUSED = [
  'everything recomputed',
  'selective recomputation',
  'llama in blocks of attention',
  'a video transformer in blocks of attention, recomputed',
  'tensor and sequence parallel, recomputed',
  'sequences divided over ranks',
  'experts',
];

/** Those of them that `npm test` has. */
const FUSED_IN_SHORT = ['everything recomputed', 'llama in blocks of attention', 'experts'];

/** The cases without a BLAS that `npm test` has: each kind of recomputation, offload, compression, precision and model. */
const IN_SHORT = [
  'every second block recomputed',
  'a budget for activations',
  'saved results on the host',
  'recomputed, bf16, accumulation',
  'PowerSGD',
  'the top 2%',
  'fp16 and a scaler',
  'gradients kept at bf16',
  'a delayed update on the host',
  'sequences divided over ranks',
  'tensor and sequence parallel, recomputed',
  'experts as units',
  'experts and sequences divided',
  'a video transformer of two experts',
];

dryRunsEqualRealRuns(2, mapHere(SETTINGS_CASES, IN_SHORT));
dryRunsEqualRealRuns(2, mapHere(SPARSE_CASES, ['sparse gradients, ZERO_2']), { isTrafficAssumed: true });
// Without a BLAS on this machine the cases above run.
const fused = [...SETTINGS_CASES].filter(([name]) => FUSED.includes(name));
dryRunsEqualRealRuns(2, mapHere(new Map(fused), FUSED_IN_SHORT), { blas: 'auto' });

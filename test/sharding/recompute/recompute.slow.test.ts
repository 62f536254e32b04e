import { valuesHere } from '../../support/cases';
import { recomputeSuite } from './recompute-suite';

recomputeSuite({ world: 1, blas: 'auto', strategies: valuesHere(['NO_SHARD', 'FULL_SHARD'], [1]) });
recomputeSuite({
  world: 2,
  blas: 'auto',
  strategies: valuesHere(
    ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'],
    [0, 4],
  ),
});

import { recomputeSuite } from './recompute-suite';

recomputeSuite({ world: 1, blas: 'auto', strategies: ['NO_SHARD', 'FULL_SHARD'] });
recomputeSuite({
  world: 2,
  blas: 'auto',
  strategies: ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'],
});
